// Package footprint keeps a process that starts from collecting garbage that is hardly any.
//
// A host that starts allocates some megabytes and keeps most of them. Looking through them again and again as the heap grows is a
// fifth of what the start takes of the processor, and reads tables of the program that nothing else needs.
package footprint

import (
	"runtime"
	"runtime/debug"
)

// GOGC during the start and after it: nothing is collected below 16 and 8 MB (4 MB times this by 100; see runtime/debug.SetGCPercent).
const (
	startPercent = 400
	firstPercent = 200
)

// Begin makes collections of garbage rare until ready is called. Since what was allocated until then is mostly kept, the first collection
// after that is due at twice as much; from then on all is as it was before. It concerns the whole process, so it is for a main package.
// A GOGC of the operator for even fewer of them stays.
func Begin() (ready func()) {
	Deepen()
	before := debug.SetGCPercent(startPercent)
	if rarer(before, startPercent) {
		debug.SetGCPercent(before)
	}
	return func() {
		if rarer(before, firstPercent) {
			debug.SetGCPercent(before)
			return
		}
		debug.SetGCPercent(firstPercent)
		afterCollection(func() { debug.SetGCPercent(before) })
	}
}

// rarer tells whether a GOGC collects more rarely than another one, or never.
func rarer(percent, than int) bool { return percent < 0 || percent >= than }

// afterCollection calls f when garbage has been collected.
func afterCollection(f func()) {
	garbage := new([16]byte) // large enough for a place of its own
	runtime.AddCleanup(garbage, func(f func()) { f() }, f)
}
