package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	pods := d.core.Pods(d.settings.Namespace)
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
	secrets := d.core.Secrets(d.settings.Namespace)
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

// owner returns the reference to the ConfigMap that owns all that an instance has, and makes it if necessary. All that goes with
// it.
func (d *driver) owner(ctx context.Context, instance string) ([]meta.OwnerReference, error) {
	maps := d.core.ConfigMaps(d.settings.Namespace)
	wanted := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{
		Name: ownerName(instance), Labels: of(instance, labelPart, partOwner), Annotations: map[string]string{noteInstance: instance},
	}}
	m, err := maps.Get(ctx, wanted.Name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		if m, err = maps.Create(ctx, wanted, meta.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			m, err = maps.Get(ctx, wanted.Name, meta.GetOptions{})
		}
	}
	if err != nil {
		return nil, d.explain("create the ConfigMap of this Flynn", err)
	}
	return []meta.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: m.Name, UID: m.UID}}, nil
}

const (
	// unused is how long a ConfigMap with pieces lasts after its last use, and used how often a use is noted. Between them lies what two
	// clocks may differ.
	unused = time.Hour
	used   = 10 * time.Minute
)

// provide makes the ConfigMaps that are missing, notes that they are used, and removes old ones.
func (d *driver) provide(ctx context.Context, instance string, wanted []*core.ConfigMap, owner []meta.OwnerReference) error {
	there, err := d.listCopies(ctx, instance)
	if err != nil {
		return d.explain("list ConfigMaps", err)
	}
	now := time.Now()
	for _, m := range wanted {
		at, is := there[m.Name]
		delete(there, m.Name)
		if is && now.Sub(usedAt(at)) < used {
			continue
		}
		m.OwnerReferences, m.Annotations = owner, map[string]string{noteUsed: now.UTC().Format(time.RFC3339)}
		if err := d.provideOne(ctx, m, is); err != nil {
			return d.explain("create a ConfigMap", err)
		}
	}
	return d.explain("remove ConfigMaps that nothing uses", d.sweep(ctx, instance, there, now))
}

// provideOne makes a ConfigMap or notes that it is used. The note also keeps another Flynn from removing it: that asks for the version that it saw.
func (d *driver) provideOne(ctx context.Context, m *core.ConfigMap, is bool) error {
	maps := d.core.ConfigMaps(d.settings.Namespace)
	note, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": m.Annotations}})
	for range 3 { // others make and remove it at the same time
		if err != nil {
			return err
		}
		if is {
			_, err = maps.Patch(ctx, m.Name, types.MergePatchType, note, meta.PatchOptions{})
		} else {
			_, err = maps.Create(ctx, m, meta.CreateOptions{})
		}
		switch {
		case apierrors.IsNotFound(err) && is:
			is, err = false, nil
		case apierrors.IsAlreadyExists(err):
			is, err = true, nil
		default:
			return err
		}
	}
	return fmt.Errorf("ConfigMap %s comes and goes", m.Name)
}

func usedAt(m meta.PartialObjectMetadata) time.Time {
	at, err := time.Parse(time.RFC3339, m.Annotations[noteUsed])
	if err != nil {
		return m.CreationTimestamp.Time
	}
	return at
}

// listCopies lists the ConfigMaps with pieces of an instance, without the pieces.
func (d *driver) listCopies(ctx context.Context, instance string) (map[string]meta.PartialObjectMetadata, error) {
	of := selector(of(instance, labelPart, partCopy))
	text, err := d.core.RESTClient().Get().Namespace(d.settings.Namespace).Resource("configmaps").
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Param("labelSelector", of.LabelSelector).Do(ctx).Raw()
	var list meta.PartialObjectMetadataList
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	all := map[string]meta.PartialObjectMetadata{}
	for _, m := range list.Items {
		all[m.Name] = m
	}
	return all, err
}

// sweep removes those of the ConfigMaps that are old and to which no Pod refers.
func (d *driver) sweep(ctx context.Context, instance string, there map[string]meta.PartialObjectMetadata, now time.Time) error {
	for name, m := range there {
		if now.Sub(usedAt(m)) < unused {
			delete(there, name)
		}
	}
	if len(there) == 0 {
		return nil
	}
	pods, err := d.core.Pods(d.settings.Namespace).List(ctx, selector(of(instance)))
	if err != nil {
		return err
	}
	for _, p := range pods.Items {
		for _, v := range p.Spec.Volumes {
			if v.Projected == nil {
				continue
			}
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil {
					delete(there, s.ConfigMap.Name)
				}
			}
		}
	}
	for name, m := range there {
		err := d.core.ConfigMaps(d.settings.Namespace).Delete(ctx, name, meta.DeleteOptions{
			Preconditions: &meta.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion},
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}
