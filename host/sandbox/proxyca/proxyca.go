// Package proxyca makes the certificates with which programs in a sandbox trust the proxy where it impersonates the host of a credential.
//
// Start with Store.Of, whose Bundle is a folder to mount and the variables that name its files. The folder is mounted rather than its
// files, so that containers see the files of a later process of the instance after that has adopted them. Package egress has the authority
// itself.
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

// prefix begins the names of the bundles' folders, followed by the process, a hyphen and a digest.
const prefix = "trust-"

// Store holds the bundles of one process, one for each set of hosts and process whose containers mount the folder. Its methods are safe for
// concurrent use.
type Store struct {
	folder string

	mu   sync.Mutex
	made map[string]*Bundle
}

// New returns a Store in a folder that the processes of the instance share.
func New(folder string) *Store { return &Store{folder: folder, made: make(map[string]*Bundle)} }

// Of returns the bundle for containers that process has made, with the given allowlist and credentials. It is nil if they need none,
// because no credential has a port with TLS.
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

// digest is the same in every process of an instance, whichever made the container.
func digest(parts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:4])
}

// covers reports whether every entry of an allowlist is a host with a credential, so that no other certificate is needed.
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

// kept is how long the folder of a dead process is kept: longer than the life of any of its containers.
const kept = 7 * 24 * time.Hour

// Clear removes the folders of processes that have been dead for long; alive are the other living ones.
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
