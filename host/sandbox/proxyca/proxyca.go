// Package proxyca makes the certificates that programs in a sandbox need to believe the proxy where it poses as the host of a
// credential.
//
// Start with Store.Of, whose Bundle is a folder to mount and the variables that name what is in it. The folder is mounted,
// not its files, so that what a later process of the instance puts there is seen by containers that it has taken over. The
// authority itself, and whom it vouches for, is package egress's.
package proxyca

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/netaddr"
	"github.com/flynnhost/flynn/host/sandbox/egress"
)

// prefix begins the names of the bundles' folders, which are for a process, a hyphen and what the bundle is for.
const prefix = "trust-"

// Store keeps the bundles of one process, one for each set of hosts and process whose containers mount the folder. Its
// methods are safe for concurrent use.
type Store struct {
	folder string

	mu   sync.Mutex
	made map[string]*Bundle
}

// New returns a Store in a folder that the processes of the instance share.
func New(folder string) *Store { return &Store{folder: folder, made: make(map[string]*Bundle)} }

// Of returns the bundle of containers that process has made, with that allowlist and those credentials, or nil if they need
// none: no credential has a port that is spoken to by TLS.
func (s *Store) Of(process string, allowlist []string, credentials []egress.Credential) (*Bundle, error) {
	var hosts netaddr.Rules
	var names []string
	for _, c := range credentials {
		if c.Rule.Ports()[0] != 80 {
			host, below := c.Rule.Host()
			hosts, names = append(hosts, c.Rule), append(names, fmt.Sprint(host.Name, below))
		}
	}
	if len(hosts) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	own := covers(hosts, allowlist)
	name := prefix + process + "-" + digest(append(names, fmt.Sprint(own)))
	s.mu.Lock()
	defer s.mu.Unlock()
	if made := s.made[name]; made != nil {
		return made, nil
	}
	authority, err := egress.NewAuthority(hosts)
	if err != nil {
		return nil, err
	}
	made := &Bundle{Authority: authority, Folder: filepath.Join(s.folder, name)}
	if err := made.write(own); err != nil {
		return nil, fmt.Errorf("write certificates for sandboxes: %w", err)
	}
	s.made[name] = made
	return made, nil
}

// digest is the same in each process of an instance, whichever made the container.
func digest(parts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:4])
}

// covers reports whether every entry of an allowlist names a host with a credential: then no other certificate is needed.
func covers(hosts netaddr.Rules, allowlist []string) bool {
	for _, text := range allowlist {
		rule, err := netaddr.ParseRule(text)
		if err != nil {
			return false
		}
		host, below := rule.Host()
		if !slices.ContainsFunc(hosts, func(h netaddr.Rule) bool {
			named, under := h.Host()
			return named == host && under == below
		}) {
			return false
		}
	}
	return true
}

// kept is how long the folder of a process that is gone stays: longer than any of its containers.
const kept = 7 * 24 * time.Hour

// Clear removes what processes have left that are gone for long; alive are the others that live.
func (s *Store) Clear(alive map[string]bool, now time.Time) error {
	left, err := filepath.Glob(filepath.Join(s.folder, prefix+"*"))
	for _, folder := range left {
		info, statErr := os.Stat(folder)
		process, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), prefix), "-")
		if s.uses(folder) || alive[process] || statErr != nil || now.Sub(info.ModTime()) < kept {
			continue
		}
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}

func (s *Store) uses(folder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[filepath.Base(folder)] != nil
}
