package edit

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/BurntSushi/toml"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/config"
)

// drawTable draws values, tables in them, and lists of tables.
func drawTable(t *rapid.T, depth int) map[string]any {
	table := map[string]any{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b b", "é", "d.e"}), 0, 3, rapid.ID).Draw(t, "names") {
		switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
		case kind == 0 && depth > 0:
			table[name] = drawTable(t, depth-1)
		case kind == 1 && depth > 0:
			list := []map[string]any{}
			for range rapid.IntRange(1, 3).Draw(t, "length") {
				list = append(list, drawTable(t, depth-1))
			}
			table[name] = list
		case kind == 2:
			table[name] = []any{"x\n", int64(1)}
		case kind == 3:
			table[name] = rapid.Bool().Draw(t, "value")
		default:
			table[name] = rapid.SampledFrom([]any{"v", "\"'\\\n\u202e", int64(-3), 0.5}).Draw(t, "value")
		}
	}
	return table
}

func drawPart(t *rapid.T) ([]byte, config.SharedPart) {
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(drawTable(t, 2)); err != nil {
		t.Fatal(err)
	}
	p, err := config.SharedPartOf(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), p
}

// TestCarryMakesTheChange: the text has all values of the part afterwards, or the edit is refused as one that has to be made by hand.
func TestCarryMakesTheChange(t *testing.T) {
	made, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		src, before := drawPart(t)
		_, after := drawPart(t)
		text, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		if err := text.Carry(before, after); err != nil {
			refused++
			return
		}
		made++
		got, err := config.SharedPartOf(text.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(filled(got.Values), filled(after.Values)) {
			t.Fatalf("%s\nhas become\n%s\nand should be %v", src, text.Bytes(), after.Values)
		}
	})
	if t.Logf("%d made, %d refused", made, refused); made < refused {
		t.Error("most changes are refused")
	}
}

// filled is a table without the tables in it that have no values, which say nothing.
func filled(table map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range table {
		if inner, is := value.(map[string]any); is {
			if inner = filled(inner); len(inner) == 0 {
				continue
			}
			value = inner
		}
		if list, is := value.([]map[string]any); is {
			next := []map[string]any{}
			for _, inner := range list {
				next = append(next, filled(inner))
			}
			value = next
		}
		out[name] = value
	}
	return out
}
