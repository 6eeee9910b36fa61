// Package need lets a test declare which real programs it requires.
//
// A missing one skips the test, except where FLYNN_TEST_REQUIRE names it: then its absence fails the test. It is for tests only.
package need

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Part skips the test if err says that the requirement is missing, or fails it if FLYNN_TEST_REQUIRE, a comma-separated list, names the
// requirement.
func Part(t testing.TB, name string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if Required(name) {
		t.Fatalf("FLYNN_TEST_REQUIRE names %s, but it is missing: %v", name, err)
	}
	t.Skipf("%s is missing: %v", name, err)
}

// Required reports whether FLYNN_TEST_REQUIRE names the requirement. It is for tests in which some are optional.
func Required(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("FLYNN_TEST_REQUIRE"), ","), name)
}

// Long skips a test that takes longer than the tests of one area may take together, except where FLYNN_TEST_REQUIRE names "long", as in CI.
// It never skips a benchmark.
func Long(t testing.TB) {
	t.Helper()
	if _, bench := t.(*testing.B); !bench && !Required("long") {
		t.Skip("it takes long: FLYNN_TEST_REQUIRE=long runs it")
	}
}
