package fleet

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// However many processes come first, and whatever a crash has left, a store has one name.
func TestStoreHasOneName(t *testing.T) {
	for round := range 50 {
		dir := t.TempDir()
		if round%2 == 1 {
			if err := os.WriteFile(filepath.Join(dir, "instance"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var names [4]string
		var all sync.WaitGroup
		for i := range names {
			all.Go(func() {
				name, err := InstanceName(dir)
				if err != nil {
					t.Error(err)
				}
				names[i] = name
			})
			if round%2 == 1 {
				all.Wait() // nobody repairs while another does
			}
		}
		all.Wait()
		for _, name := range names {
			if name == "" || name != names[0] {
				t.Fatalf("round %d: names %q", round, names)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(dir, ".instance-*")); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}
