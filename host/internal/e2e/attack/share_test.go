package attack

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/sdk/channel"
)

// TestOneSendersShare has a member fill what he can: conversations, attachments of ever new names, files that his agent writes. Afterwards
// the disk holds no more than [limits] allows, and another member is not affected.
func TestOneSendersShare(t *testing.T) {
	const size, sessionDisk, senderDisk = 100 << 10, 1 << 20, 2 << 20
	s := newSite(t, withPolicies(t, config)+fmt.Sprintf(`
[limits]
sender_sessions = 4
session_disk = "%dk"
sender_disk = "%dk"
`, sessionDisk>>10, senderDisk>>10))
	var events []string
	for i := range 6 {
		events = append(events, s.says("able", fmt.Sprint("fill", i), "hello"))
	}
	for i, event := range events {
		want := mailbox.InboxDone
		if i >= 4 {
			want = mailbox.InboxDropped
		}
		if row := s.row("chat", event, want); i >= 4 && !strings.Contains(row.Note, "limits.sender_sessions") {
			t.Errorf("it is dropped because %s", row.Note)
		} else if i >= 4 {
			told, err := s.store.Replies(t.Context(), mailbox.CommandTurn(row.ID))
			if err != nil || len(told) != 5-i || i == 4 && !strings.Contains(told[0].Reply.Text, "Continue one of them") {
				t.Errorf("message %d: the sender reads %+v (%v)", i, told, err)
			}
		}
	}
	for i := range 4 {
		at := place{"chat", fmt.Sprint("fill", i)}
		for n := range 3 {
			var files []channel.Attachment
			for k := range 8 {
				files = append(files, channel.Attachment{Handle: fmt.Sprint(size), Name: fmt.Sprintf("%d-%d.txt", n, k), Size: size})
			}
			s.said(channel.Event{
				Conversation: channel.Conversation{ID: at.conversation, Kind: channel.DM}, Sender: channel.Sender{ID: "able", Name: "able"}, Addressed: true,
				Attachments: files,
			})
			s.ended(at, n+2)
		}
		for n := range 5 {
			s.says("able", at.conversation, fmt.Sprintf(`!tool file.write {"path":"f%d","content":%q}`, n, strings.Repeat("y", 40_000)))
			s.ended(at, n+5)
		}
		if last := s.calls(s.ended(at, 9).ID); len(last) != 1 || !strings.Contains(last[0].Result.Text, "delete some first") {
			t.Errorf("the last file is answered with %+v", last)
		}
	}
	held := quota.Tree(filepath.Join(s.dir, "state", "workspaces"))
	if most := int64(senderDisk + 128<<10); held > most || held < senderDisk/2 { // folders take something, too
		t.Errorf("his workspaces take %d bytes of %d", held, senderDisk)
	}
	at := place{"chat", "others"}
	s.says("judged", at.conversation, "hello")
	if turn := s.ended(at, 1); turn.State != turnlog.TurnDone {
		t.Errorf("another member's turn is %+v", turn)
	}
}
