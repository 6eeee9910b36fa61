package main

import (
	"fmt"
	"slices"
	"strconv"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flynnhost/flynn/sdk/sandbox"
)

// The volumes of every Pod, and where they are mounted.
const (
	copiesVolume   = "copies"
	piecesVolume   = "pieces"
	identityVolume = "identity"
	tmpVolume      = "tmp"

	copiesFolder = "/.flynn-copies" // while the Pod is prepared
	piecesFolder = "/.flynn-pieces" // the same
	// closedFolder holds the file that the kubelet gives every container to leave a message in. Everybody could write to it, to the node's disk,
	// and nothing bounds it; so it is in a folder that only root enters.
	closedFolder = "/.flynn-closed"
	closed       = "closed" // its name among the copies
)

// volumes collects the volumes of a Pod and the mounts of its main container.
type volumes struct {
	copies copies
	all    []core.Volume
	mounts []core.VolumeMount
	stored int64 // bytes that may be on the node's disk
}

// add adds what a container asks for. unlimited is the size of a disk that has none.
func (v *volumes) add(mounts []sandbox.Mount, unlimited int64) error {
	v.prepared()
	if !slices.ContainsFunc(mounts, func(m sandbox.Mount) bool { return m.Target == "/tmp" }) {
		mounts = append([]sandbox.Mount{{Kind: sandbox.Memory, Target: "/tmp", Bytes: tmpBytes}}, mounts...)
	}
	copied := 0
	for i, m := range mounts {
		if err := checkTarget(m.Target); err != nil {
			return err
		}
		mount := core.VolumeMount{Name: "mount-" + strconv.Itoa(i), MountPath: m.Target, ReadOnly: m.ReadOnly}
		switch m.Kind {
		case sandbox.Copy:
			mount.Name, mount.SubPath, mount.ReadOnly = copiesVolume, strconv.Itoa(copied), true
			copied++
		case sandbox.Memory:
			v.empty(mount.Name, core.StorageMediumMemory, m.Bytes)
		case sandbox.Disk:
			size := m.Bytes
			if size <= 0 {
				size = unlimited
			}
			v.empty(mount.Name, core.StorageMediumDefault, size)
		default:
			return fmt.Errorf("%w: a folder of the host at %s", sandbox.ErrCannotHold, m.Target)
		}
		v.mounts = append(v.mounts, mount)
	}
	return nil
}

// prepared adds the volumes that the init container reads and fills.
func (v *volumes) prepared() {
	v.empty(copiesVolume, core.StorageMediumDefault, v.copies.bytes+1<<20)
	from := core.ProjectedVolumeSource{DefaultMode: new(int32(0o444))}
	for _, m := range v.copies.maps {
		from.Sources = append(from.Sources, core.VolumeProjection{ConfigMap: &core.ConfigMapProjection{LocalObjectReference: core.LocalObjectReference{Name: m.Name}}})
	}
	v.all = append(v.all, core.Volume{Name: piecesVolume, VolumeSource: core.VolumeSource{Projected: &from}})
	v.mounts = append(v.mounts, core.VolumeMount{Name: copiesVolume, MountPath: closedFolder, SubPath: closed, ReadOnly: true})
}

func (v *volumes) empty(name string, medium core.StorageMedium, bytes int64) {
	source := &core.EmptyDirVolumeSource{Medium: medium}
	if bytes > 0 {
		source.SizeLimit = resource.NewQuantity(bytes, resource.BinarySI)
	}
	if medium == core.StorageMediumDefault {
		v.stored += bytes
	}
	v.all = append(v.all, core.Volume{Name: name, VolumeSource: core.VolumeSource{EmptyDir: source}})
}

// identity adds the Secret of a Pod, which has its name.
func (v *volumes) identity(pod string) {
	v.all = append(v.all, core.Volume{Name: identityVolume, VolumeSource: core.VolumeSource{Secret: &core.SecretVolumeSource{
		SecretName: pod, DefaultMode: new(int32(0o400)), Items: []core.KeyToPath{{Key: identityKey, Path: identityKey}},
	}}})
	v.mounts = append(v.mounts, core.VolumeMount{Name: identityVolume, MountPath: sandbox.IdentityPath, SubPath: identityKey, ReadOnly: true})
}

// preparing are the mounts of the init container.
func (v *volumes) preparing() []core.VolumeMount {
	return []core.VolumeMount{{Name: copiesVolume, MountPath: copiesFolder}, {Name: piecesVolume, MountPath: piecesFolder, ReadOnly: true}}
}
