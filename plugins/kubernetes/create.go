package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flynnhost/flynn/sdk/sandbox"
)

// cleanTimeout bounds the removal of a Pod that could not be completed.
const cleanTimeout = 10 * time.Second

func (d *driver) Create(ctx context.Context, c sandbox.Container) (string, error) {
	if err := d.holds(c); err != nil {
		return "", err
	}
	instance := c.Labels[sandbox.LabelInstance]
	cs, err := readCopies(instance, c.Mounts)
	if err != nil {
		return "", err
	}
	pod, err := d.pod(c, cs, time.Now())
	if err != nil {
		return "", err
	}
	owner, err := d.owner(ctx, instance)
	if err != nil {
		return "", err
	}
	if err := d.policy(ctx, instance, c.Network, owner); err != nil {
		return "", err
	}
	if err := d.provide(ctx, instance, cs.maps, owner); err != nil {
		return "", err
	}
	pod.OwnerReferences = owner
	made, err := d.makePod(ctx, pod)
	if err != nil {
		return "", err
	}
	if err := d.identity(ctx, made, instance, c.Identity); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
		defer cancel()
		return "", errors.Join(err, d.Remove(ctx, made.Name))
	}
	return made.Name, nil
}

// makePod makes a Pod, or returns the one that has the key already.
func (d *driver) makePod(ctx context.Context, pod *core.Pod) (*core.Pod, error) {
	pods := d.api.pods(d.settings.Namespace)
	made, err := pods.Create(ctx, pod, meta.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return made, d.explain("create a Pod", err)
	}
	made, err = pods.Get(ctx, pod.Name, meta.GetOptions{})
	if err != nil {
		return nil, d.explain("create a Pod", err)
	}
	if made.Annotations[noteKey] != pod.Annotations[noteKey] || made.Annotations[noteInstance] != pod.Annotations[noteInstance] {
		return nil, fmt.Errorf("there is another Pod %s, which has not the key of this sandbox: remove it", pod.Name)
	}
	return made, nil
}

// identity makes the Secret of a Pod, which goes with it.
func (d *driver) identity(ctx context.Context, pod *core.Pod, instance string, identity []byte) error {
	secrets := d.api.secrets(d.settings.Namespace)
	owner := []meta.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
	secret := &core.Secret{
		ObjectMeta: meta.ObjectMeta{Name: pod.Name, Labels: of(instance), OwnerReferences: owner},
		Immutable:  new(true), Data: map[string][]byte{identityKey: identity},
	}
	_, err := secrets.Create(ctx, secret, meta.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return d.explain("create a Secret", err)
	}
	old, err := secrets.Get(ctx, pod.Name, meta.GetOptions{})
	if err == nil && slices.ContainsFunc(old.OwnerReferences, func(o meta.OwnerReference) bool { return o.UID == pod.UID }) {
		return nil // of an earlier call with this key
	}
	if err == nil { // of a Pod of this name that is gone
		err = secrets.Delete(ctx, pod.Name, meta.DeleteOptions{Preconditions: meta.NewUIDPreconditions(string(old.UID))})
	}
	if err == nil || apierrors.IsNotFound(err) {
		_, err = secrets.Create(ctx, secret, meta.CreateOptions{})
	}
	return d.explain("create a Secret", err)
}
