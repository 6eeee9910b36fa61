package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flynnhost/flynn/sdk/backoff"
	"github.com/flynnhost/flynn/sdk/sandbox"
)

// find returns a Pod of Flynn's by its id, or by the name that the host gave it; nil if there is none.
func (d *driver) find(ctx context.Context, id string) (*core.Pod, error) {
	if !validName.MatchString(id) {
		return nil, fmt.Errorf("%.80q is no id of a Pod", id)
	}
	named, err := d.api.pods(d.settings.Namespace).List(ctx, selector(map[string]string{labelManaged: managed, labelName: digest(id)}))
	if err != nil {
		return nil, err
	}
	for _, p := range named.Items {
		if p.Annotations[noteName] == id {
			return &p, nil
		}
	}
	p, err := d.api.pods(d.settings.Namespace).Get(ctx, id, meta.GetOptions{})
	if err != nil || hostLabels(p) == nil {
		return nil, ignoreNotFound(err)
	}
	return p, nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (d *driver) Start(ctx context.Context, id string) error {
	if !validName.MatchString(id) {
		return fmt.Errorf("%.80q is no id of a Pod", id)
	}
	_, err := d.api.pods(d.settings.Namespace).Patch(ctx, id, types.MergePatchType, []byte(`{"spec":{"schedulingGates":null}}`), meta.PatchOptions{})
	return d.explain("start Pod "+id, err)
}

// The wait between two looks at a Pod that starts, and what is left of a call's time to say why it does not.
const (
	firstLook = 50 * time.Millisecond
	mostLook  = 500 * time.Millisecond
	sayWhy    = 2 * time.Second
)

func (d *driver) Endpoint(ctx context.Context, id string) (sandbox.Endpoint, error) {
	if !validName.MatchString(id) {
		return sandbox.Endpoint{}, fmt.Errorf("%.80q is no id of a Pod", id)
	}
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if until, is := ctx.Deadline(); is {
		waiting, cancel = context.WithDeadline(ctx, until.Add(-sayWhy))
	}
	defer cancel()
	look := backoff.Backoff{First: firstLook, Most: mostLook}
	for {
		p, err := d.api.pods(d.settings.Namespace).Get(ctx, id, meta.GetOptions{})
		if err != nil {
			return sandbox.Endpoint{}, d.explain("find Pod "+id, err)
		}
		address, waits, err := endpoint(p)
		if err != nil || address != "" {
			return sandbox.Endpoint{Network: "tcp", Address: address}, err
		}
		if backoff.Sleep(waiting, look.Failed(0)) != nil {
			if ctx.Err() != nil {
				return sandbox.Endpoint{}, ctx.Err()
			}
			return sandbox.Endpoint{}, fmt.Errorf("start Pod %s: it does not run yet: %s", id, waits)
		}
	}
}

// endpoint returns where the supervisor of a Pod listens. While that is not known it says what the Pod waits for; an error is a reason for which
// it will wait for ever.
func endpoint(p *core.Pod) (address, waits string, err error) {
	switch {
	case len(p.Spec.SchedulingGates) > 0:
		return "", "", fmt.Errorf("find the address of Pod %s: it was not started", p.Name)
	case p.DeletionTimestamp != nil, p.Status.Phase == core.PodFailed, p.Status.Phase == core.PodSucceeded:
		return "", "", fmt.Errorf("find the address of Pod %s: it has ended: %s", p.Name, ending(p))
	}
	for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if w := s.State.Waiting; w != nil {
			waits = words(w.Reason + ": " + w.Message)
			switch w.Reason {
			case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError":
				return "", "", fmt.Errorf("%w: %.200s: %s: push it to a registry that the nodes reach, load it into them, or set image_pull_secrets in the [drivers] table",
					sandbox.ErrNoImage, s.Image, waits)
			}
		}
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Running != nil && p.Status.PodIP != "" {
			return net.JoinHostPort(p.Status.PodIP, strconv.Itoa(port)), "", nil
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodScheduled && c.Status == core.ConditionFalse {
			waits = words("no node takes it: " + c.Message + " Add nodes, lower memory_limit and cpu_limit in [sandbox], or set cpu_request and node_selector in the [drivers] table")
		}
	}
	if waits == "" {
		waits = "its node has not said why: kubectl describe pod " + p.Name
	}
	return "", waits, nil
}

// ending says how a Pod has ended.
func ending(p *core.Pod) string {
	text := p.Status.Reason + " " + p.Status.Message
	for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
			text += fmt.Sprintf(" container %s: %s, exit code %d: %s", s.Name, t.Reason, t.ExitCode, t.Message)
		}
	}
	return words(text)
}

const (
	// forceAfter is how long a node has to end the processes of a Pod. After that the object is removed without it: a node that does not answer
	// may be gone for ever, and a supervisor without a host ends by itself.
	forceAfter = 20 * time.Second
	// gonePoll is the wait between two looks whether a Pod is gone.
	gonePoll = 100 * time.Millisecond
)

func (d *driver) Remove(ctx context.Context, id string) error {
	p, err := d.find(ctx, id)
	if err != nil || p == nil {
		return d.explain("find Pod "+id, err)
	}
	pods, force := d.api.pods(d.settings.Namespace), time.Now().Add(forceAfter)
	how := meta.DeleteOptions{Preconditions: meta.NewUIDPreconditions(string(p.UID))}
	for asked := false; ; {
		if !asked || how.GracePeriodSeconds == nil && time.Now().After(force) {
			if asked {
				how.GracePeriodSeconds = new(int64(0))
			}
			asked = true
			if err := pods.Delete(ctx, p.Name, how); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return d.explain("remove Pod "+p.Name, err)
			}
		}
		is, err := pods.Get(ctx, p.Name, meta.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && is.UID != p.UID {
			return nil
		}
		if err == nil {
			err = backoff.Sleep(ctx, gonePoll)
		}
		if err != nil {
			return d.explain("remove Pod "+p.Name, err)
		}
	}
}

func (d *driver) List(ctx context.Context, instance string) ([]sandbox.Owned, error) {
	listed, err := d.api.pods(d.settings.Namespace).List(ctx, selector(of(instance)))
	if err != nil {
		return nil, d.explain("list Pods", err)
	}
	var all []sandbox.Owned
	for _, p := range listed.Items {
		labels := hostLabels(&p)
		if labels[sandbox.LabelInstance] != instance {
			continue
		}
		image := ""
		if len(p.Spec.Containers) > 0 {
			image = p.Spec.Containers[0].Image
		}
		all = append(all, sandbox.Owned{
			ID: p.Name, Name: p.Annotations[noteName], Image: image, State: state(&p), Labels: labels, Created: p.CreationTimestamp.Time,
		})
	}
	return all, nil
}

// state is the state of a Pod in the words of the host.
func state(p *core.Pod) string {
	switch {
	case p.Status.Phase == core.PodFailed, p.Status.Phase == core.PodSucceeded:
		return "exited"
	case len(p.Spec.SchedulingGates) > 0:
		return "created"
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			return "exited"
		}
	}
	return "running"
}
