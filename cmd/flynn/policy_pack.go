package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/install/fetch"
	"github.com/flynnhost/flynn/host/install/signing"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/policy/pack"
)

// signingCommands returns the commands that sign and pack policies.
func signingCommands() []*cli.Command {
	return []*cli.Command{
		{Name: "keygen", Usage: "generate a key to sign policies with, and print its public half", ArgsUsage: "FILE", Action: generateKey},
		{
			Name: "sign", Usage: "write a policy's digests and sign them", ArgsUsage: "DIR", Action: signPolicy,
			Description: "Writes digest and source_digest into policy.toml, and the signature into policy.sig. It covers name, version, ABI, kinds,\n" +
				"limits, module and source.",
			Flags: []cli.Flag{&cli.StringFlag{Name: "key", Usage: "sign with the private key in `FILE`, which flynn policy dev keygen makes", Required: true}},
		},
		{
			Name: "pack", Usage: "pack a policy into an archive", ArgsUsage: "[DIR]", Action: packPolicy,
			Description: "The archive holds policy.toml, policy.sig, the module, cases, README.md and LICENSE. The same files make the same bytes.",
			Flags:       []cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write `FILE` (default: NAME-VERSION.tar.gz)"}},
		},
	}
}

// distributionCommands returns the commands that install policies.
func distributionCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "install", Usage: "install a policy, so that policy = \"NAME\" puts it in force", ArgsUsage: "DIR|FILE|URL", Action: installPolicy,
			Description: "Checks digests and signature, runs the module's test cases, copies the policy into the store and writes policies.lock\n" +
				"beside the configuration. A running flynn that uses the policy switches to the new version at once.",
			Flags: []cli.Flag{&cli.BoolFlag{Name: "allow-downgrade", Usage: "accept an older version, or one that lacks the signature of the last one"}},
		},
		{Name: "verify", Usage: "check installed policies against the lock", ArgsUsage: "[NAME...]", Action: verifyPolicies},
		{Name: "remove", Usage: "remove an installed policy", ArgsUsage: "NAME", Action: removePolicy},
	}
}

// described is the JSON of sign and pack.
type described struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Digest  string   `json:"digest"`
	Source  string   `json:"source_digest,omitempty"`
	Signer  pack.Key `json:"signer,omitempty"`
	File    string   `json:"file,omitempty"` // of the archive
}

func describe(p *pack.Package, file string) described {
	m := p.Manifest
	return described{m.Name, m.Version, m.Digest, m.Source, p.Signer, file}
}

func signPolicy(ctx context.Context, cmd *cli.Command) error {
	dir := cmd.Args().First()
	private, err := signing.ReadPrivate(cmd.String("key"))
	if err != nil {
		return err
	}
	p, err := pack.Sign(dir, private)
	if err != nil {
		return err
	}
	return newOutput(ctx, cmd).success(describe(p, ""),
		"%s %s is signed by %s. Pack it with: flynn policy dev pack %s", p.Manifest.Name, p.Manifest.Version, p.Signer, dir)
}

func packPolicy(ctx context.Context, cmd *cli.Command) error {
	p, err := pack.Open(policyDirs(cmd)[0])
	if err != nil {
		return err
	}
	file := cmp.Or(cmd.String("output"), fmt.Sprintf("%s-%s.tar.gz", p.Manifest.Name, p.Manifest.Version))
	var packed bytes.Buffer
	if err := p.Pack(&packed); err != nil {
		return err
	}
	if err := os.WriteFile(file, packed.Bytes(), 0o644); err != nil {
		return err
	}
	return newOutput(ctx, cmd).result(describe(p, file), "%s", file)
}

// openPackage reads the package to install, and returns where it came from.
func openPackage(ctx context.Context, from string, trust pack.Trust) (*pack.Package, string, error) {
	if fetch.IsURL(from) {
		p, err := pack.Fetch(ctx, from, trust, nil)
		return p, from, err
	}
	p, err := pack.Open(from)
	if err != nil {
		return nil, "", err
	}
	from, err = filepath.Abs(from)
	return p, from, err
}

// policyStore opens the store of installed policies. It loads the configuration without its checks: one that names a policy which is
// not installed yet must not keep it from being installed.
func policyStore(ctx context.Context, cmd *cli.Command) (*pack.Store, error) {
	c, err := config.LoadBeside(configPath(ctx, cmd), getenvOf(ctx))
	if err != nil {
		return nil, err
	}
	return configured.Store(c), nil
}

func installPolicy(ctx context.Context, cmd *cli.Command) error {
	store, err := policyStore(ctx, cmd)
	if err != nil {
		return err
	}
	p, from, err := openPackage(ctx, cmd.Args().First(), store.Trust())
	if err != nil {
		return err
	}
	locked, known, err := store.Install(ctx, p, from, cmd.Bool("allow-downgrade"))
	if err != nil {
		return err
	}
	return showInstalled(newOutput(ctx, cmd), p, locked, known)
}

func showInstalled(o *output, p *pack.Package, l pack.Locked, known bool) error {
	if p.Signer != "" && l.Key == "" {
		o.warn("signed by %s, which nobody has checked: [policy_trust] keys is empty", p.Signer)
	}
	if o.asJSON {
		return o.json(l)
	}
	what, by := "installed", "not signed"
	if known {
		what = "already installed:"
	}
	if l.Key != "" {
		by = "signed by " + string(l.Key)
	}
	o.line("%s %s %s, %s", what, l.Name, l.Version, by)
	o.line("  [[policies]]\n  name = %q\n  policy = %q\n  kinds = [%s]", l.Name, l.Name, `"`+strings.Join(l.Kinds, `", "`)+`"`)
	if limits := p.Manifest.Limits.TOML(); limits != "" {
		o.line("  limits = { %s }", limits)
	}
	return nil
}

func verifyPolicies(ctx context.Context, cmd *cli.Command) error {
	store, err := policyStore(ctx, cmd)
	if err != nil {
		return err
	}
	return verifyAll(newOutput(ctx, cmd), cmd.Args().Slice(), store.List, func(l pack.Locked) string { return l.Name },
		func(name string) (string, error) {
			locked, err := store.Verify(name)
			return locked.Version, err
		})
}

func removePolicy(ctx context.Context, cmd *cli.Command) error {
	store, err := policyStore(ctx, cmd)
	if err != nil {
		return err
	}
	name := cmd.Args().First()
	if err := store.Remove(name); err != nil {
		return err
	}
	newOutput(ctx, cmd).done("%s is removed", name)
	return nil
}
