package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Record is what a later host needs to find a container that has background commands. It is stored in a file of the instance's folder, from
// before the first such command is announced until the container is gone. The file holds a secret, so only the host's user may read it.
type Record struct {
	Version   int                  `json:"version"`
	Key       string               `json:"key"`
	Host      string               `json:"host"`  // the process that created the container
	Owner     string               `json:"owner"` // the process that has it, or had it last
	Container string               `json:"container"`
	Session   message.WorkspaceKey `json:"session"`
	Sandbox   string               `json:"sandbox"`
	Hash      string               `json:"hash"` // of Spec and the supervisor
	Spec      spec.Spec            `json:"spec"`
	Timeout   time.Duration        `json:"timeout"` // not part of Spec's JSON
	Born      time.Time            `json:"born"`
	Lease     time.Duration        `json:"lease"`
	Peer      uint32               `json:"peer"`
	Secret    []byte               `json:"secret"`
	Epoch     uint64               `json:"epoch"`
	Identity  []byte               `json:"identity,omitempty"` // the host's, for a supervisor that listens

	// These are set in a Registry only. Instance is that of the host that created the container, Engine distinguishes the engine; see
	// driver.Capabilities.
	Instance     string                  `json:"instance,omitempty"`
	Engine       string                  `json:"engine,omitempty"`
	Conversation message.ConversationKey `json:"conversation,omitempty"`
}

const (
	recordVersion = 2
	recordPrefix  = "box-"
	recordSuffix  = ".json"
	// maxRecord bounds the size of a record's file; a specification may have long lists.
	maxRecord = 256 << 10
	maxName   = 4 << 10
)

// ParseRecord parses strictly, because the record decides which session gets the container.
func ParseRecord(text []byte) (Record, error) {
	var r Record
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Record{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return Record{}, errors.New("trailing data after the record")
	}
	r.Spec.Timeout = r.Timeout
	return r, r.check()
}

func (r Record) check() error {
	switch {
	case r.Version != recordVersion:
		return fmt.Errorf("it has version %d", r.Version)
	case !spec.IsKey(r.Key):
		return fmt.Errorf("key %.40q is malformed", r.Key)
	case r.Host == "" || len(r.Host) > maxName, r.Owner == "" || len(r.Owner) > maxName:
		return errors.New("it names no process")
	case r.Epoch == 0 || r.Epoch == math.MaxUint64:
		return fmt.Errorf("epoch %d is impossible", r.Epoch)
	case r.Container == "" || len(r.Container) > maxName || strings.ContainsAny(r.Container, "/?#%\x00"):
		return fmt.Errorf("container %.80q is malformed", r.Container)
	case len(r.Session) > maxName || len(r.Sandbox) > maxName || len(r.Engine) > maxName:
		return errors.New("a name is too long")
	case r.Lease <= 0 || r.Born.IsZero():
		return errors.New("it has no lease, or no date")
	case len(r.Secret) != frame.SecretSize:
		return fmt.Errorf("the secret has %d bytes", len(r.Secret))
	}
	return nil
}

// RecordPath returns the path of a key's record in the folder of the instance.
func RecordPath(run, key string) string { return filepath.Join(run, recordPrefix+key+recordSuffix) }

// ReadRecord reads the record of a key.
func ReadRecord(run, key string) (Record, error) {
	f, err := os.Open(RecordPath(run, key))
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return Record{}, err
	}
	if len(text) > maxRecord {
		return Record{}, fmt.Errorf("record of container %s is longer than %d bytes", key, maxRecord)
	}
	r, err := ParseRecord(text)
	if err == nil && r.Key != key {
		err = errors.New("it is that of another key")
	}
	if err != nil {
		return Record{}, fmt.Errorf("record of container %s is invalid: %w", key, err)
	}
	return r, nil
}

// RecordKeys returns the keys that have records.
func RecordKeys(run string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(run, recordPrefix+"*"+recordSuffix))
	var keys []string
	for _, name := range names {
		if key := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), recordPrefix), recordSuffix); spec.IsKey(key) {
			keys = append(keys, key)
		}
	}
	return keys, err
}

// Write writes the record so that it survives the end of this process and a power failure.
func (r Record) Write(run string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(text) > maxRecord {
		return fmt.Errorf("record of %d bytes is too long", len(text))
	}
	return durable.WriteFile(RecordPath(run, r.Key), text, 0o600)
}

// Remember records the container for a later host, once. r names its session and specification; the rest is filled in. Without a lease it
// does nothing.
func (c *Container) Remember(r Record) error {
	o := c.config.Ownership
	if o.lease <= 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.recorded {
		return nil
	}
	c.complete(&r)
	err := r.Write(o.run)
	o.recorded = err == nil
	return err
}

// complete fills in what the container knows of its record.
func (c *Container) complete(r *Record) {
	o := c.config.Ownership
	r.Version, r.Key, r.Container, r.Born = recordVersion, o.key, c.config.ID, c.config.Born
	r.Timeout, r.Lease, r.Peer, r.Secret, r.Epoch, r.Identity = r.Spec.Timeout, o.lease, o.peer, o.secret, o.epoch, o.identity
	r.Owner = r.Host
}

// erase removes the record.
func (o *Ownership) erase() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.recorded {
		return
	}
	o.recorded = false
	if o.registry == nil {
		os.Remove(RecordPath(o.run, o.key))
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), registryTimeout)
	defer cancel()
	_ = o.registry.Drop(ctx, o.key, o.epoch) // one that stays is removed by the next host that finds no container for it
}

// isRecorded reports whether a later host can find the container.
func (o *Ownership) isRecorded() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.recorded
}
