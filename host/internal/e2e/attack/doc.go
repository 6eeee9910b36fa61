// Package attack holds tests only: what an attacker tries at every frontend of a whole host, against every control.
//
// Start with TestTable, whose comment says what each cell means, and with TestInjections. A host of these tests is the real one, made by
// host.New from a configuration; its channel is a plugin that lives in the test, its programs speak HTTP, and the model obeys every word
// that it reads, as a model that has fallen for an injection does. What a cell asserts is what the store and the disk say afterwards,
// not what anybody was told.
package attack
