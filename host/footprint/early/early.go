// Package early keeps a program from collecting garbage that is hardly any, from before its main function on until it has started.
//
// The packages of a large program allocate some megabytes before main begins, and a host that starts as many again; most of it is kept.
// Looking through it as the heap grows is an eighth of what a start takes of the processor, and reads tables of the program that nothing
// else needs.
//
// It is for a main package, which imports it and calls Started: to import it is what has the effect, since main comes too late. Packages
// are initialised in the order of their paths as soon as what they import is, so that one with few imports is so before the large ones.
package early

import (
	"runtime"
	"runtime/debug"
)

// GOGC during the start and after it: nothing is collected below 16 and 8 MB (4 MB times this by 100; see runtime/debug.SetGCPercent).
const (
	startPercent = 400
	firstPercent = 200
)

// before is the GOGC of the operator. One for even fewer collections stays.
var before = begin()

func begin() (before int) {
	before = debug.SetGCPercent(startPercent)
	if rarer(before, startPercent) {
		debug.SetGCPercent(before)
	}
	return before
}

// Started ends it. Since what was allocated until then is mostly kept, the first collection after that is due at twice as much; from
// then on all is as the operator has it. It may be called again.
func Started() { end(before) }

func end(before int) {
	if rarer(before, firstPercent) {
		debug.SetGCPercent(before)
		return
	}
	debug.SetGCPercent(firstPercent)
	afterCollection(func() { debug.SetGCPercent(before) })
}

// rarer tells whether a GOGC collects more rarely than another one, or never.
func rarer(percent, than int) bool { return percent < 0 || percent >= than }

// afterCollection calls f when garbage has been collected.
func afterCollection(f func()) {
	garbage := new([16]byte) // large enough for a place of its own
	runtime.AddCleanup(garbage, func(f func()) { f() }, f)
}
