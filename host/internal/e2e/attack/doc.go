// Package attack holds tests only: the attempts of an attacker at every frontend of a whole host, against every control.
//
// Start with TestTable, whose comment says what each cell means, and with TestInjections. A host of these tests is the real one, made by
// host.New from a configuration; its channel is a plugin that lives in the test, its programs speak HTTP, and the model obeys every word
// that it reads, as a model that has fallen for an injection does. A cell checks the store and the disk afterwards,
// not the answers.
package attack
