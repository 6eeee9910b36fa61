package selftest

// Report is the result for one sandbox.
type Report struct {
	Engine  string `json:"engine"`
	Address string `json:"address"`
	Image   string `json:"image"`
	Network string `json:"network"`
	// Passed, Weak and Failed count probes; Controlled counts those whose control failed as expected.
	Passed     int       `json:"passed"`
	Weak       int       `json:"weak"`
	Failed     int       `json:"failed"`
	Controlled int       `json:"controlled"`
	Outcomes   []Outcome `json:"probes"`
}

// Outcome is the result of one probe.
type Outcome struct {
	Name   string `json:"name"`
	Row    string `json:"row"`
	Why    string `json:"why"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	// Setting says what to change; empty if the probe passed.
	Setting string `json:"setting,omitempty"`
	TookMS  int64  `json:"took_ms"`
	// Control is nil if it was not tried.
	Control *ControlOutcome `json:"control,omitempty"`
}

// ControlOutcome is the result of the same attack on a weak container.
type ControlOutcome struct {
	// Failed is true if the attack succeeded there, as expected.
	Failed bool   `json:"failed"`
	Detail string `json:"detail"`
	TookMS int64  `json:"took_ms"`
}

// Add counts an outcome.
func (r *Report) Add(o Outcome) {
	switch o.Status {
	case Pass:
		r.Passed++
	case Weak:
		r.Weak++
	default:
		r.Failed++
	}
	if o.Control != nil && o.Control.Failed {
		r.Controlled++
	}
	r.Outcomes = append(r.Outcomes, o)
}

// OK reports whether all probes and controls had the expected result.
func (r *Report) OK() bool {
	for _, o := range r.Outcomes {
		if o.Status == Fail || o.Control != nil && !o.Control.Failed {
			return false
		}
	}
	return true
}
