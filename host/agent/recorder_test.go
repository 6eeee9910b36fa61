package agent

import (
	"reflect"
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
)

// TestNothingOfACommitIsLostWhereTwoAreJoined looks at every field, those of later days included.
func TestNothingOfACommitIsLostWhereTwoAreJoined(t *testing.T) {
	of := reflect.TypeFor[turnlog.Commit]()
	for n := range of.NumField() {
		field := of.Field(n)
		if field.Name == "Turn" { // the next one's, which is the newer state
			continue
		}
		filled := reflect.New(of).Elem()
		switch f := filled.Field(n); f.Kind() {
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("x")
		default:
			f.SetInt(1)
		}
		some, none := filled.Interface().(turnlog.Commit), turnlog.Commit{}
		for side, got := range map[string]turnlog.Commit{"first": joined(some, none), "next": joined(none, some)} {
			if reflect.ValueOf(got).Field(n).IsZero() {
				t.Errorf("%s of the %s commit is lost", field.Name, side)
			}
		}
	}
}
