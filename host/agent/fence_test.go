package agent

import (
	"strings"
	"testing"
)

func TestFencedProgram(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       program
	}{
		{"none", "The answer is 4.", program{}},
		{"python", "Let me see.\n```python\nprint(2+2)\n```\nDone.", program{"python", "print(2+2)\n"}},
		{"short tags", "```py\nx = 1\n```", program{"python", "x = 1\n"}},
		{"javascript", "```js\nconsole.log(1)\n```", program{"javascript", "console.log(1)\n"}},
		{"capital letters", "```JavaScript\n1\n```", program{"javascript", "1\n"}},
		{"attributes", "```python title=\"a\"\n1\n```", program{"python", "1\n"}},
		{"tildes", "~~~python\nprint('```')\n~~~", program{"python", "print('```')\n"}},
		{"longer fence", "````python\n```\n````", program{"python", "```\n"}},
		{"line ends of Windows", "```python\r\n1\r\n```\r\n", program{"python", "1\r\n"}},
		{"indented", "   ```python\n1\n   ```", program{"python", "1\n"}},
		{"indented code", "    ```python\n1\n    ```", program{}},
		{"no tag", "```\nprint(1)\n```", program{}},
		{"another tag", "```text\nprint(1)\n```", program{}},
		{"a longer word", "```pythonic\nprint(1)\n```", program{}},
		{"two", "```python\n1\n```\n```python\n2\n```", program{}},
		{"one and an untagged one", "```python\n1\n```\n```\n1\n```", program{}},
		{"no end", "```python\nprint(1)", program{}},
		{"another end", "```python\nprint(1)\n~~~", program{}},
		{"empty", "```python\n\n```", program{}},
		{"in a line", "use ```python print(1)``` here", program{}},
		{"backtick in the tag", "```py`thon\n1\n```", program{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := fencedProgram(c.text)
			if ok != (c.want != program{}) || ok && got != c.want {
				t.Errorf("%+v %v, want %+v", got, ok, c.want)
			}
		})
	}
}

func FuzzFencedProgram(f *testing.F) {
	for _, seed := range []string{"```python\nprint(1)\n```", "~~~js\n```\n~~~\n", "a\n```\nb", "````py\n```\n````"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := fencedProgram(text)
		if !ok {
			return
		}
		if !strings.Contains(text, strings.TrimSuffix(p.Program, "\n")) {
			t.Errorf("%q is not in %q", p.Program, text)
		}
		if again, ok := fencedProgram(fenced(p.args())); strings.ToValidUTF8(p.Program, "") == p.Program &&
			(!ok || strings.TrimSuffix(again.Program, "\n") != strings.TrimSuffix(p.Program, "\n")) {
			t.Errorf("written anew it is %+v (%v), not %+v", again, ok, p)
		}
	})
}
