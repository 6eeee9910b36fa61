package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/version"

	"github.com/flynnhost/flynn/sdk/sandbox"
)

const release = "0.1.0"

// driver makes Pods in one namespace of a cluster.
type driver struct {
	settings settings
	address  string
	shared   string // see sandbox.Capabilities
	api      *client
}

func (d *driver) Describe() sandbox.Description {
	return sandbox.Description{Name: "kubernetes", Version: release, ConfigSchema: settingsSchema}
}

func (d *driver) Configure(_ context.Context, c sandbox.Config) error {
	s, err := newSettings(c)
	if err != nil {
		return err
	}
	to, err := s.connection()
	if err != nil {
		return err
	}
	d.settings, d.address = s, to.Host
	if d.shared, err = clusterOf(to, s.Namespace); err != nil {
		return sandbox.FieldErrors{{Path: "kubeconfig", Message: err.Error()}}
	}
	if d.api, err = newClient(to); err != nil {
		return sandbox.FieldErrors{{Path: "kubeconfig", Message: "it has no usable credentials: try kubectl cluster-info"}}
	}
	return nil
}

func (d *driver) Capabilities(ctx context.Context) (sandbox.Capabilities, error) {
	text, err := d.api.core.Get().AbsPath("/version").Do(ctx).Raw()
	var is version.Info
	if err == nil {
		err = json.Unmarshal(text, &is)
	}
	if err != nil {
		return sandbox.Capabilities{}, d.explain("ask for the version", err)
	}
	has := sandbox.Capabilities{
		Engine: "Kubernetes " + is.GitVersion, Address: d.address, Runtimes: slices.Clone(d.settings.Runtimes),
		Networks: []string{sandbox.NetworkNone, sandbox.NetworkBridge}, Copies: true,
		Shared:   d.shared,
		Features: []sandbox.Feature{sandbox.Seccomp}, // the RuntimeDefault of every Pod
	}
	if d.settings.UserNamespaces {
		has.Features = append(has.Features, sandbox.UserNamespaces)
	}
	has.Lacks = []sandbox.Lack{{Limit: sandbox.LeftMemory, Why: "Kubernetes does not let a Pod set kernel.msgmni and kernel.sem: message queues and semaphores of System V " +
		"that a command leaves behind stay until its session ends; shared memory goes"}}
	if d.settings.PodPidsLimit == 0 {
		has.Lacks = append(has.Lacks, sandbox.Lack{Limit: sandbox.PidsLimit, Why: "Kubernetes has no limit of processes for one Pod, only podPidsLimit of the kubelet: " +
			"set that on the nodes, and pod_pids_limit in the [drivers] table to its value"})
	}
	return has, nil
}

// holds refuses what the cluster cannot hold and the host cannot know from Capabilities.
func (d *driver) holds(c sandbox.Container) error {
	if limit := d.settings.PodPidsLimit; limit > c.PidsLimit && !c.BestEffort {
		return fmt.Errorf("%w: %d processes, because the kubelets allow each Pod %d: raise pids_limit in [sandbox] by %d, or lower podPidsLimit of the kubelets and pod_pids_limit",
			sandbox.ErrCannotHold, c.PidsLimit, limit, limit-c.PidsLimit)
	}
	return nil
}
