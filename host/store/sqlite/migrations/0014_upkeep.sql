-- Where a person was last spoken to in private is found by the person.
CREATE INDEX turns_sender ON turns (sender, id);
