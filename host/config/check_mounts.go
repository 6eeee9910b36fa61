package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/mounts"
)

// MountRules say which folders of the host a sandbox may see. Flynn's own files are excluded: a program that writes to
// the configuration could run commands on the host.
func (c *Config) MountRules(getenv func(string) string) mounts.Rules {
	hidden := absolute(c.hidden(getenv))
	secret := append([]string{filepath.Join(c.folder(), filepath.Base(c.Path))}, hidden...)
	secret = append(secret, c.Plugins.Dir,
		engineSocket(getenv("DOCKER_HOST")), engineSocket(c.Sandbox.Engine), c.Sandbox.Compose)
	for _, name := range sorted(c.Sandboxes) {
		secret = append(secret, c.Sandboxes[name].Compose)
	}
	for _, p := range c.Policies {
		secret = append(secret, p.Path)
	}
	for _, path := range c.Plugins.DevPaths {
		secret = append(secret, path)
	}
	for _, name := range sorted(c.Agents) {
		hidden = append(hidden, absolute([]string{c.Agents[name].CLI.AuthDir})...) // only the agent's own container sees it
	}
	return mounts.Rules{Roots: c.Sandbox.MountRoots, Home: getenv("HOME"), Secret: absolute(secret), Hidden: hidden}
}

// folder is the absolute path of the configuration's folder.
func (c *Config) folder() string {
	folder := filepath.Dir(c.Path)
	if absolute, err := filepath.Abs(folder); err == nil {
		return absolute
	}
	return folder
}

// absolute returns the paths that are set.
func absolute(paths []string) (set []string) {
	for _, path := range paths {
		if filepath.IsAbs(path) {
			set = append(set, path)
		}
	}
	return set
}

// engineSocket is the path in an engine's address, or "".
func engineSocket(address string) string {
	path, is := strings.CutPrefix(address, "unix://")
	if !is {
		return ""
	}
	return path
}

// mounts checks the mounts, volumes and folders in memory of a sandbox.
func (c *checker) mounts(at keyPath, s Sandbox) {
	if !slices.Equal(s.MountRoots, c.cfg.Sandbox.MountRoots) {
		c.report(at.child("mount_roots"), "all sandboxes share one list", "write it in [sandbox]")
	}
	c.mountRoots(at.child("mount_roots"), s.MountRoots)
	var targets []string
	var places []keyPath
	place := func(at keyPath, target string) {
		if c.required(at, target, `"/data"`); target != "" {
			targets, places = append(targets, target), append(places, at)
		}
	}
	for i, m := range s.Mounts {
		each := at.child("mounts").index(i)
		c.source(each.child("source"), m.Source)
		c.overWritable(each.child("source"), m)
		place(each.child("target"), m.Target)
	}
	for i, v := range s.Volumes {
		each := at.child("volumes").index(i)
		c.volumeName(each.child("name"), v.Name)
		place(each.child("target"), v.Target)
	}
	for i, t := range s.Tmpfs {
		place(at.child("tmpfs").index(i).child("target"), t.Target)
	}
	var bad *mounts.TargetError
	if errors.As(mounts.CheckTargets(s.WorkspaceDir, targets), &bad) {
		problem, hint, _ := strings.Cut(bad.Problem, ": ")
		c.report(places[bad.Index], problem, hint)
	}
}

// ownFile refuses a configuration that an agent could write. MountRules keeps it out of every mount.
func (c *checker) ownFile() {
	path := filepath.Join(c.cfg.folder(), filepath.Base(c.cfg.Path))
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	for _, name := range []string{"workspaces", "homes"} { // of package fleet
		dir := filepath.Join(c.cfg.Store.Dir, name)
		if resolved, err := filepath.EvalSymlinks(dir); err == nil {
			dir = resolved
		}
		if mounts.Below(path, dir) {
			c.report(keyPath{"store", "dir"}, "this file lies in "+dir+", where agents write", "move the file, or the store")
		}
	}
}

func (c *checker) mountRoots(at keyPath, roots []string) {
	if !c.lines.has(at) {
		return // inherited, and reported where it stands
	}
	for i, root := range roots {
		if root == "/" {
			c.report(at.index(i), "/ holds everything", "name the folders that sandboxes may see")
		}
	}
}

func (c *checker) source(at keyPath, source string) {
	if c.required(at, source, `"/srv/flynn/data"`); source == "" {
		return
	}
	if _, err := c.cfg.MountRules(c.getenv).Check(source); err != nil {
		problem, hint := apart(err)
		c.report(at, problem, hint)
	}
}

// overWritable refuses a source inside a folder that some sandbox can write to: a command could replace it by a link.
func (c *checker) overWritable(at keyPath, m Mount) {
	if above := c.writableAbove(m.Source); above != "" {
		c.report(at, fmt.Sprintf("%s lies in %s, which a sandbox may write to, and so may be swapped for a link", m.Source, above),
			"mount folders beside each other")
	}
}

// writableAbove returns a folder around a source that some sandbox may write to, or "". It returns "" for an invalid source, which is
// reported elsewhere.
func (c *checker) writableAbove(source string) string {
	rules := c.cfg.MountRules(c.getenv)
	resolved, err := rules.Check(source)
	if err != nil {
		return ""
	}
	for _, writable := range c.writable() {
		if above, err := rules.Check(writable); err == nil && above != resolved && mounts.Below(resolved, above) {
			return writable
		}
	}
	return ""
}

// writable are the folders of the host that sandboxes may write to.
func (c *checker) writable() (sources []string) {
	all := append([]Sandbox{c.cfg.Sandbox}, valuesOf(c.cfg.Sandboxes)...)
	for _, name := range sorted(c.cfg.Agents) {
		program := c.cfg.Agents[name].CLI
		all = append(all, Sandbox{Mounts: program.Mounts})
		if program.Folder != "" {
			sources = append(sources, program.Folder)
		}
		all = append(all, c.cfg.Agents[name].Code.sandbox(nil))
	}
	for _, s := range all {
		for _, m := range s.Mounts {
			if !m.ReadOnly {
				sources = append(sources, m.Source)
			}
		}
		if s.Project == nil {
			continue
		}
		for _, service := range s.Project.Services {
			for _, b := range service.Binds {
				if !b.ReadOnly {
					sources = append(sources, b.Source)
				}
			}
		}
	}
	return sources
}

func (c *checker) volumeName(at keyPath, name string) {
	if c.required(at, name, `"cache"`); name != "" {
		c.name(at, name)
	}
}
