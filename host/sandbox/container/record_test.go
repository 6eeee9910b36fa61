package container

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// aRecord is one that ParseRecord accepts.
func aRecord() Record {
	wanted := spec.Spec{Image: "x"}.WithDefaults()
	return Record{
		Version: recordVersion, Key: spec.NewKey(), Host: "0123abcd", Owner: "0123abcd", Epoch: 1, Container: "c1", Session: "s", Sandbox: "default",
		Hash: wanted.Hash("digest"), Spec: wanted, Timeout: wanted.Timeout, Born: time.Now(), Lease: time.Minute,
		Peer: uint32(os.Getuid()), Secret: bytes.Repeat([]byte{7}, frame.SecretSize),
	}
}

func TestRecordIsPrivateAndComesBack(t *testing.T) {
	run := t.TempDir()
	r := aRecord()
	if err := r.Write(run); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(RecordPath(run, r.Key))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
	got, err := ReadRecord(run, r.Key)
	if err != nil || got.Spec.Timeout != r.Timeout || got.Spec.Hash("digest") != r.Hash || !bytes.Equal(got.Secret, r.Secret) || !got.Born.Equal(r.Born) {
		t.Errorf("came back as %+v (%v)", got, err)
	}
	if keys, err := RecordKeys(run); err != nil || len(keys) != 1 || keys[0] != r.Key {
		t.Errorf("keys %v (%v)", keys, err)
	}
	other := spec.NewKey()
	if err := os.Rename(RecordPath(run, r.Key), RecordPath(run, other)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRecord(run, other); err == nil {
		t.Error("a record under another's name is taken")
	}
}

func TestRecordRefusals(t *testing.T) {
	for name, spoil := range map[string]func(*Record){
		"version":   func(r *Record) { r.Version++ },
		"key":       func(r *Record) { r.Key = "../../../../../../../../../../x" },
		"short key": func(r *Record) { r.Key = "ab" },
		"host":      func(r *Record) { r.Host = "" },
		"container": func(r *Record) { r.Container = "../containers/other" },
		"lease":     func(r *Record) { r.Lease = -1 },
		"secret":    func(r *Record) { r.Secret = r.Secret[1:] },
		"no date":   func(r *Record) { r.Born = time.Time{} },
		"name":      func(r *Record) { r.Session = message.WorkspaceKey(strings.Repeat("x", maxName+1)) },
	} {
		r := aRecord()
		spoil(&r)
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseRecord(text); err == nil {
			t.Errorf("accepted: %s", name)
		}
	}
}

// FuzzRecord: what is accepted is fit to name files and containers, and says the same when it is written again.
func FuzzRecord(f *testing.F) {
	text, err := json.Marshal(aRecord())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(append(text, "{}"...))
	f.Add(bytes.Replace(text, []byte(`"key":"`), []byte(`"key":"/`), 1))
	f.Add([]byte(`{"version":1,"spec":{"Image":"x"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRecord(text)
		if err != nil {
			return
		}
		if !spec.IsKey(r.Key) || strings.ContainsAny(r.Container, "/?") || len(r.Secret) != frame.SecretSize {
			t.Errorf("accepted %+v", r)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Skip("a time that JSON cannot say")
		}
		if second, err := ParseRecord(again); err != nil || second.Key != r.Key || second.Spec.Hash("") != r.Spec.Hash("") {
			t.Errorf("%s became %s (%v)", text, again, err)
		}
	})
}
