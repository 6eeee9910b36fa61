package policy

import "testing"

// TestTextsOfTheHeader: the C header compares texts by words as one would by bytes.
func TestTextsOfTheHeader(t *testing.T) {
	s := engine(t, Source{Name: "strings", Path: buildC(t, "testdata/strings.c"), Kinds: []string{KindRoute}, Limits: Limits{Wall: unhurried}}).Pin()
	defer s.Release()
	if a, records := s.Route(t.Context(), routeFacts()); !a.Decided || a.Failed || a.Agent != "" || a.Reason != "rule 1" {
		t.Errorf("%+v, %+v", a, records)
	}
}
