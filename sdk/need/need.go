// Package need lets a test say which real part of the world it runs against.
//
// A missing part skips the test, except where FLYNN_TEST_REQUIRE names the part: then
// its absence fails. It is for tests only.
package need

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Part skips the test when err says that the part is missing, or fails it when FLYNN_TEST_REQUIRE, a
// comma-separated list, names the part.
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

// Required reports whether FLYNN_TEST_REQUIRE names the part. It is for tests that can do without some of their parts.
func Required(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("FLYNN_TEST_REQUIRE"), ","), name)
}

// Long skips a test that takes longer than the tests of one area may take together, except where FLYNN_TEST_REQUIRE names "long", as CI does.
// A benchmark may take its time.
func Long(t testing.TB) {
	t.Helper()
	if _, bench := t.(*testing.B); !bench && !Required("long") {
		t.Skip("it takes long: FLYNN_TEST_REQUIRE=long runs it")
	}
}
