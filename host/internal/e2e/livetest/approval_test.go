package livetest

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestApprovalInChat has a guest's command wait for an owner, who answers in the same channel.
func TestApprovalInChat(t *testing.T) {
	t.Parallel()
	addr := ircServer(t)
	config := strings.Replace(ircConfig, "ADDRESS", addr, 1)
	config = strings.Replace(config, "model_tier = \"complex\"\n", "model_tier = \"complex\"\ntool_profile = \"coding\"\n", 1)
	config = strings.Replace(config, "mode = \"open\"\n", "mode = \"open\"\nowners = [\"net:ann\"]\n", 1)
	s := newSite(t, config+"[models.default]\nprovider = \"demo\"\n[models.complex]\nprovider = \"demo\"\n")
	s.start()
	ann, bob := newPerson(t, addr, "ann"), newPerson(t, addr, "bob")
	ann.meet()
	bob.send("PRIVMSG #flynn :flynn: !sh echo one-$((40+2))")
	line := ann.await("/approve ", patience)
	id := regexp.MustCompile(`/approve ([A-Z0-9]+)`).FindStringSubmatch(line)[1]
	bob.send("PRIVMSG #flynn :flynn: /approve " + id)
	bob.await("Only an owner", patience)
	s.kill() // the request, and the answer to it, outlive the host
	ann.await(" QUIT ", patience)
	s.start()
	ann.meet()
	ann.send("PRIVMSG #flynn :flynn: /approve " + id)
	ann.await("Approved: ", patience)
	bob.await("one-42", patience)
	bob.quiet("/approve "+id, 300*time.Millisecond)
}
