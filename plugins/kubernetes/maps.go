package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// unused is how long a ConfigMap lasts after its last use, and used how often a use is noted. Between them lies what two clocks may differ.
	unused = time.Hour
	used   = 10 * time.Minute
)

// owner returns the reference to the ConfigMap that owns all that an instance has, and makes it if necessary. All that goes with it.
func (d *driver) owner(ctx context.Context, instance string) ([]meta.OwnerReference, error) {
	maps, now := d.api.configMaps(d.settings.Namespace), time.Now()
	wanted := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{
		Name: ownerName(instance), Labels: of(instance, labelPart, partOwner),
		Annotations: map[string]string{noteInstance: instance, noteUsed: now.UTC().Format(time.RFC3339)},
	}}
	m, err := maps.Get(ctx, wanted.Name, meta.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && now.Sub(usedAt(m.ObjectMeta)) >= used {
		if err = d.provideOne(ctx, wanted, err == nil); err == nil {
			m, err = maps.Get(ctx, wanted.Name, meta.GetOptions{})
		}
	}
	if err != nil {
		return nil, d.explain("create the ConfigMap of this Flynn", err)
	}
	return []meta.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: m.Name, UID: m.UID}}, nil
}

// provide makes the ConfigMaps that are missing, notes that they are used, and removes what nobody uses any more.
func (d *driver) provide(ctx context.Context, instance string, wanted []*core.ConfigMap, owner []meta.OwnerReference) error {
	there, err := d.listMaps(ctx)
	if err != nil {
		return d.explain("list ConfigMaps", err)
	}
	now := time.Now()
	for _, m := range wanted {
		at, is := there[m.Name]
		delete(there, m.Name)
		if is && now.Sub(usedAt(at.ObjectMeta)) < used {
			continue
		}
		m.OwnerReferences, m.Annotations = owner, map[string]string{noteUsed: now.UTC().Format(time.RFC3339)}
		if err := d.provideOne(ctx, m, is); err != nil {
			return d.explain("create a ConfigMap", err)
		}
	}
	delete(there, ownerName(instance))
	return d.explain("remove ConfigMaps that nothing uses", d.sweep(ctx, instance, there, now))
}

// provideOne makes a ConfigMap or notes that it is used. The note also keeps another Flynn from removing it: that asks for the version that it saw.
func (d *driver) provideOne(ctx context.Context, m *core.ConfigMap, is bool) error {
	maps := d.api.configMaps(d.settings.Namespace)
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

func usedAt(m meta.ObjectMeta) time.Time {
	at, err := time.Parse(time.RFC3339, m.Annotations[noteUsed])
	if err != nil {
		return m.CreationTimestamp.Time
	}
	return at
}

// listMaps lists the ConfigMaps of all instances, without what is in them.
func (d *driver) listMaps(ctx context.Context) (map[string]meta.PartialObjectMetadata, error) {
	text, err := d.api.core.Get().Namespace(d.settings.Namespace).Resource("configmaps").
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").
		Param("labelSelector", labelManaged+"="+managed+","+labelPart).Do(ctx).Raw()
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

// sweep removes what is old and no Pod needs: pieces of this instance, and all that instances have which are gone, such as that of a self-test.
func (d *driver) sweep(ctx context.Context, instance string, there map[string]meta.PartialObjectMetadata, now time.Time) error {
	for name, m := range there {
		own := m.Labels[labelInstance] == digest(instance)
		if now.Sub(usedAt(m.ObjectMeta)) < unused || !own && m.Labels[labelPart] != partOwner {
			delete(there, name)
		}
	}
	if len(there) == 0 {
		return nil
	}
	pods, err := d.api.pods(d.settings.Namespace).List(ctx, selector(map[string]string{labelManaged: managed}))
	if err != nil {
		return err
	}
	for name, m := range there {
		if needed(m, pods.Items) {
			continue
		}
		err := d.api.configMaps(d.settings.Namespace).Delete(ctx, name, meta.DeleteOptions{
			Preconditions: &meta.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion},
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// needed reports whether a Pod refers to a ConfigMap, or is one of the instance that has it.
func needed(m meta.PartialObjectMetadata, pods []core.Pod) bool {
	for _, p := range pods {
		if m.Labels[labelPart] == partOwner && p.Labels[labelInstance] == m.Labels[labelInstance] {
			return true
		}
		for _, v := range p.Spec.Volumes {
			if v.Projected == nil {
				continue
			}
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil && s.ConfigMap.Name == m.Name {
					return true
				}
			}
		}
	}
	return false
}
