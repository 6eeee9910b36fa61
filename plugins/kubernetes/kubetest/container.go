package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
)

// volumes makes the folders of a Pod's volumes. It waits for what they refer to, as a node does.
func (r *run) volumes(ctx context.Context) error {
	for _, v := range r.pod.Spec.Volumes {
		at := filepath.Join(r.dir, v.Name)
		err := errors.Join(os.MkdirAll(at, 0o777), os.Chmod(at, 0o777)) // the umask does not count
		switch {
		case err != nil:
		case v.Secret != nil:
			err = r.fill(ctx, at, "secrets", v.Secret.SecretName, *v.Secret.DefaultMode)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				err = errors.Join(err, r.fill(ctx, at, "configmaps", s.ConfigMap.Name, *v.Projected.DefaultMode))
			}
		}
		if err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
	}
	return nil
}

// fill writes the content of an object into a folder.
func (r *run) fill(ctx context.Context, dir, resource, name string, mode int32) error {
	content := r.store.content(resource, name)
	for ; content == nil; content = r.store.content(resource, name) {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for key, text := range content {
		if err := os.WriteFile(filepath.Join(dir, key), text, os.FileMode(mode)); err != nil {
			return err
		}
	}
	return nil
}

// arguments are those of docker run for a container of the Pod.
func (r *run) arguments(c core.Container, name, network string) ([]string, error) {
	limits, sec := c.Resources.Limits, c.SecurityContext
	args := []string{
		"--pull=never", "--name=" + name, "--label=kubetest=" + r.pod.Name, "--network=" + network, "--ipc=private", "--hostname=" + r.pod.Spec.Hostname,
		"--workdir=" + c.WorkingDir, "--no-healthcheck", "--user=" + fmt.Sprint(*sec.RunAsUser, ":", *sec.RunAsGroup),
		"--memory=" + strconv.FormatInt(limits.Memory().Value(), 10), "--memory-swap=" + strconv.FormatInt(limits.Memory().Value(), 10),
		"--cpus=" + fmt.Sprint(min(limits.Cpu().AsApproximateFloat64(), 2)),
	}
	if *sec.ReadOnlyRootFilesystem {
		args = append(args, "--read-only")
	}
	if !*sec.AllowPrivilegeEscalation {
		args = append(args, "--security-opt=no-new-privileges")
	}
	for _, c := range sec.Capabilities.Drop {
		args = append(args, "--cap-drop="+string(c))
	}
	for _, c := range sec.Capabilities.Add {
		args = append(args, "--cap-add="+string(c))
	}
	for _, s := range r.pod.Spec.SecurityContext.Sysctls {
		args = append(args, "--sysctl="+s.Name+"="+s.Value)
	}
	for _, a := range r.pod.Spec.HostAliases {
		for _, host := range a.Hostnames {
			args = append(args, "--add-host="+host+":"+a.IP)
		}
	}
	env := map[string]string{}
	for _, e := range c.Env {
		if env[e.Name] = e.Value; e.ValueFrom != nil {
			env[e.Name] = r.ip
		}
		args = append(args, "--env="+e.Name+"="+env[e.Name])
	}
	for _, m := range c.VolumeMounts {
		flag, err := r.mount(m)
		if err != nil {
			return nil, err
		}
		args = append(args, "--mount="+flag)
	}
	command := expand(append(append([]string{}, c.Command...), c.Args...), env)
	return append(append(args, "--entrypoint="+command[0], c.Image), command[1:]...), nil
}

func (r *run) mount(m core.VolumeMount) (string, error) {
	for _, v := range r.pod.Spec.Volumes {
		if v.Name != m.Name {
			continue
		}
		if v.EmptyDir != nil && v.EmptyDir.Medium == core.StorageMediumMemory {
			return fmt.Sprintf("type=tmpfs,target=%s,tmpfs-mode=0777,tmpfs-size=%d", m.MountPath, v.EmptyDir.SizeLimit.Value()), nil
		}
		flag := fmt.Sprintf("type=bind,source=%s,target=%s", filepath.Join(r.dir, v.Name, m.SubPath), m.MountPath)
		if m.ReadOnly {
			flag += ",readonly"
		}
		return flag, nil
	}
	return "", fmt.Errorf("there is no volume %s", m.Name)
}

var reference = regexp.MustCompile(`\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)`)

// expand replaces references to variables as Kubernetes does.
func expand(args []string, env map[string]string) (all []string) {
	for _, a := range args {
		all = append(all, reference.ReplaceAllStringFunc(a, func(found string) string {
			if found == "$$" {
				return "$"
			}
			if value, is := env[found[2:len(found)-1]]; is {
				return value
			}
			return found
		}))
	}
	return all
}
