package deleteonly_test

import (
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/deleteonly"
)

func TestOnlyDeletes(t *testing.T) {
	for _, script := range []string{
		"rm -rf node_modules", "rm a; rmdir b", "rm -f *.o && ls -la\n du -sm .", "rm 'a b' \"c d\"", "  ls", "rm -rf d*/[a-z]?", "rm -- -x", "rm ä", "rm -rf x 2>/dev/null; ls >/dev/null 2>&1",
		"find . -name '*.o' -delete", "find . -type f -size +1M",
	} {
		if !deleteonly.Only(script) {
			t.Errorf("%q is refused", script)
		}
	}
	for _, script := range []string{
		"", " ", ";", "\n", "true", "rmx", "./rm x", "/bin/rm x", "rm=1 ls", "A=1 rm x", "rm x > y", "rm x >> y", "rm x >/dev/nullx", "rm x >/dev/null/../../workspace/y", "rm x >2>/dev/null y", "rm x 2>/dev/null> y", "rm x & dd", "rm x | tee y", "rm x || dd of=y",
		"rm $(dd of=y)", "rm `dd of=y`", "rm ${x:=y}", "rm $((1))", "rm <(dd)", "rm x\\\ny", "rm 'x", "rm \"x", "rm 'a;dd of=y'", "rm \"$(dd of=y)\"",
		"rm 'x' \"y\" 'z", "rm(){ dd; }; rm x", "{ rm x; }", "(rm x)", "rm x # y", "rm ~", "rm x\r; dd", "rm x\x00", "rm x; dd of=y", "rm\tx", "if rm; then", "rm\v x",
		"! rm x", "rm !$", "exec rm x", "find . -exec dd of=y", "find . -ok dd", "find . -fprint y", "find . -fls y", "find . -e'xe'c dd", "find . '-exec' dd", "find . \"-fpr\"int y",
		"find *", "find . -name *.o", "find [a-z]", "find . 'a'* ", "find . ?exec", "rm x\u2028; dd", "ls; \n eval x",
	} {
		if deleteonly.Only(script) {
			t.Errorf("%q passes", script)
		}
	}
}
