package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// bom is what a software bill of materials in CycloneDX's JSON has.
type bom struct {
	Schema       string          `json:"$schema"`
	Format       string          `json:"bomFormat"`
	Spec         string          `json:"specVersion"`
	Version      int             `json:"version"`
	Metadata     bomMetadata     `json:"metadata"`
	Components   []bomComponent  `json:"components"`
	Dependencies []bomDependency `json:"dependencies"`
}

type bomMetadata struct {
	Timestamp string          `json:"timestamp"`
	Tools     json.RawMessage `json:"tools"`
	Component bomComponent    `json:"component"`
}

type bomComponent map[string]any

func (c bomComponent) ref() string { text, _ := c["bom-ref"].(string); return text }

type bomDependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// bill writes one bill for the release: each program of each target, and the modules in it.
func (r *release) bill(ctx context.Context) error {
	all := bom{Components: []bomComponent{}}
	programs, err := r.programs()
	if err != nil {
		return err
	}
	top := bomDependency{Ref: "flynn@" + r.name()}
	for _, file := range programs {
		one, err := r.billOf(ctx, file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(filepath.Join(r.work, "trees"), file)
		if err != nil {
			return err
		}
		top.DependsOn = append(top.DependsOn, all.join(one, filepath.ToSlash(name), r.version))
	}
	all.Metadata.Timestamp = r.date.Format(time.RFC3339)
	all.Metadata.Component = bomComponent{"bom-ref": top.Ref, "type": "application", "name": "flynn", "version": r.version}
	all.Dependencies = append(all.Dependencies, top)
	all.sort()
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, "flynn-"+r.name()+".cdx.json"), append(text, '\n'), 0o644)
}

// programs returns the Go programs in the trees.
func (r *release) programs() (list []string, err error) {
	for _, t := range r.targets {
		for _, pattern := range []string{"bin/*", "lib/flynn/*-linux-*", "lib/flynn/plugins/*/bin/*"} {
			found, err := filepath.Glob(filepath.Join(r.tree(t), filepath.FromSlash(pattern)))
			if err != nil || len(found) == 0 {
				return nil, fmt.Errorf("find the programs %s: %d, %w", pattern, len(found), err)
			}
			list = append(list, found...)
		}
	}
	return list, nil
}

func (r *release) billOf(ctx context.Context, file string) (one bom, err error) {
	out := filepath.Join(r.work, "bill.json")
	args := []string{"bin", "-json", "-noserial", "-version", r.version, "-output", out, file}
	if _, err := output(ctx, r.work, nil, r.tools["cyclonedx-gomod"], args...); err != nil {
		return one, err
	}
	text, err := os.ReadFile(out)
	if err == nil {
		err = json.Unmarshal(text, &one)
	}
	return one, err
}

// join adds the bill of one program, and returns the program's reference. The same module for two platforms is one.
func (b *bom) join(one bom, name, version string) string {
	b.Schema, b.Format, b.Spec, b.Version, b.Metadata.Tools = one.Schema, one.Format, one.Spec, one.Version, one.Metadata.Tools
	had := one.Metadata.Component.ref()
	for _, c := range one.Components {
		if purl, ok := c["purl"].(string); ok {
			c["purl"], _, _ = strings.Cut(purl, "&goos=")
		}
		if !slices.ContainsFunc(b.Components, func(d bomComponent) bool { return d.ref() == c.ref() }) {
			b.Components = append(b.Components, c)
		}
	}
	ref := "file:" + name
	b.Components = append(b.Components, bomComponent{"bom-ref": ref, "type": "application", "name": name, "version": version})
	for _, d := range one.Dependencies {
		if d.Ref == had {
			d.Ref = ref
		}
		if !slices.ContainsFunc(b.Dependencies, func(e bomDependency) bool { return e.Ref == d.Ref }) {
			b.Dependencies = append(b.Dependencies, d)
		}
	}
	return ref
}

func (b *bom) sort() {
	slices.SortFunc(b.Components, func(x, y bomComponent) int { return cmp.Compare(x.ref(), y.ref()) })
	slices.SortFunc(b.Dependencies, func(x, y bomDependency) int { return cmp.Compare(x.Ref, y.Ref) })
}
