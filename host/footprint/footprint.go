// Package footprint keeps a process that starts from collecting garbage that is hardly any.
//
// A host that starts allocates some megabytes and keeps most of them. Looking through them again and again as the heap grows is a
// fifth of what the start takes of the processor.
package footprint

import "runtime/debug"

// startPercent is GOGC during the start: nothing is collected below 16 MB (4 MB times this by 100; see runtime/debug.SetGCPercent).
const startPercent = 400

// Begin makes collections of garbage rare until ready is called. It concerns the whole process, so it is for a main package.
// A GOGC of the operator for even fewer of them stays.
func Begin() (ready func()) {
	before := debug.SetGCPercent(startPercent)
	if before < 0 || before > startPercent {
		debug.SetGCPercent(before)
	}
	return func() { debug.SetGCPercent(before) }
}
