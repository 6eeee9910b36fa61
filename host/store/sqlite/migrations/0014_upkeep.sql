-- Where a person was last spoken to in private is found by the person.
CREATE INDEX turns_sender ON turns (sender, id);

-- What is past its time is found by it.
CREATE INDEX results_at ON results (at);
CREATE INDEX summaries_at ON summaries (at);
CREATE INDEX decisions_text ON decisions (text) WHERE text IS NOT NULL;
