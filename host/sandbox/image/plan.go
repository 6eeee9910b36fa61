package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
)

// Plan is the image that a recipe leads to at the moment, on this host and its engine.
type Plan struct {
	Strategy string
	// Ref is the image's name, which depends on everything that the image is made of.
	Ref string
	// Family is common to all images that the recipe has produced over time; empty for an unchanged image.
	Family string

	recipe Recipe
	key    string
	base   string       // id of the image that additions are based on
	bases  []string     // ids of the images that a Dockerfile uses
	source *buildSource // of a Dockerfile
}

// recipeVersion changes when the same recipe would give another result.
const recipeVersion = "2"

// lookUp finds an image, with or without fetching it.
type lookUp func(ctx context.Context, ref string) (Info, error)

// plan determines what the recipe's image is made of.
func (b *Builder) plan(ctx context.Context, r Recipe, find lookUp) (Plan, error) {
	if err := r.Validate(); err != nil {
		return Plan{}, err
	}
	p := Plan{Strategy: r.Strategy(), Ref: r.Image, recipe: r, Family: family(r)}
	var err error
	switch p.Strategy {
	case Dockerfile:
		err = b.planDockerfile(ctx, &p, find)
	case OnTop:
		err = b.planOnTop(ctx, &p, find)
	}
	if p.key != "" {
		p.Ref = b.config.Repository + ":" + p.key
	}
	return p, err
}

func (b *Builder) planOnTop(ctx context.Context, p *Plan, find lookUp) error {
	base, err := find(ctx, p.recipe.Image)
	if err != nil {
		return err
	}
	p.base = base.ID
	d := newDigest()
	d.add("image", base.ID, base.Platform)
	d.add(slices.Sorted(slices.Values(p.recipe.Packages))...)
	d.add(p.recipe.sortedBinaries()...)
	p.key = d.key()
	return nil
}

func (b *Builder) planDockerfile(ctx context.Context, p *Plan, find lookUp) error {
	source, err := readSource(ctx, p.recipe, b.hidden())
	if err != nil {
		return err
	}
	platform, err := b.engine.Platform(ctx)
	if err != nil {
		return err
	}
	d := newDigest()
	d.add("dockerfile", platform, string(source.text), string(source.digest))
	for _, ref := range source.bases {
		base, err := find(ctx, ref)
		if err != nil {
			return err
		}
		for _, line := range base.OnBuild {
			if err := checkOffline(line); err != nil && p.recipe.Network == "none" {
				return fmt.Errorf("image %s has the instruction for builds %q: %w", ref, line, err)
			}
		}
		d.add(ref, base.ID)
		p.bases = append(p.bases, base.ID)
	}
	p.source, p.key = source, d.key()
	return nil
}

// sortedBinaries returns the names and checksums, sorted.
func (r Recipe) sortedBinaries() []string {
	var all []string
	for _, b := range r.Binaries {
		all = append(all, b.Name+" "+b.SHA256)
	}
	slices.Sort(all)
	return all
}

// family is a digest of the configuration, without the content of files.
func family(r Recipe) string {
	d := newDigest()
	switch r.Strategy() {
	case AsIs:
		return ""
	case Dockerfile:
		d.add("dockerfile", r.Dockerfile, r.folder())
	default:
		var names []string
		for _, b := range r.Binaries {
			names = append(names, b.Name)
		}
		d.add("image", r.Image)
		d.add(slices.Sorted(slices.Values(r.Packages))...)
		d.add(slices.Sorted(slices.Values(names))...)
	}
	return d.key()
}

// digest hashes lists of words unambiguously.
type digest struct{ sum hash.Hash }

func newDigest() digest {
	d := digest{sha256.New()}
	d.add("flynn image recipe", recipeVersion)
	return d
}

func (d digest) add(words ...string) {
	fmt.Fprintf(d.sum, "%d;", len(words))
	for _, w := range words {
		fmt.Fprintf(d.sum, "%d:", len(w))
		_, _ = io.Copy(d.sum, strings.NewReader(w)) // a hash never fails
	}
}

// key returns the digest as an image tag.
func (d digest) key() string { return hex.EncodeToString(d.sum.Sum(nil)[:16]) }
