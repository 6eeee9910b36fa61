package main

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flynnhost/flynn/sdk/sandbox"
)

const (
	// port is where a supervisor listens, at the Pod's address alone: what listens at the loopback is the sandbox's own affair.
	port = 7443
	// tmpBytes is the size of /tmp.
	tmpBytes = 64 << 20
	// spareBytes is what a Pod may write to its node besides its volumes, such as the output of its supervisor.
	spareBytes = 64 << 20
	// graceSeconds is how long a Pod has to end: no time, but zero would remove the object before the node has ended the processes.
	graceSeconds = 1
	// slack is how long a Pod outlasts its label flynn.expires, after which its host should have removed it.
	slack = time.Hour
	// labelExpires is an RFC 3339 time.
	labelExpires = "flynn.expires"
	// away is how long a Pod stays on a node that does not answer, in seconds.
	away = 15
	// identityKey is the key of the identity in its Secret.
	identityKey = "identity"
)

// pod describes a container as a Pod that waits for its gate to be removed.
func (d *driver) pod(c sandbox.Container, cs copies, now time.Time) (*core.Pod, error) {
	instance := c.Labels[sandbox.LabelInstance]
	notes, err := notes(c)
	if err != nil {
		return nil, err
	}
	aliases, err := hostAliases(c.Hosts)
	if err != nil {
		return nil, err
	}
	v := &volumes{copies: cs}
	if err := v.add(c.Mounts, d.settings.DiskMiB<<20); err != nil {
		return nil, err
	}
	v.identity(podName(instance, c.Key))
	limits, requests, err := d.resources(c, v.stored+spareBytes)
	if err != nil {
		return nil, err
	}
	pod := &core.Pod{
		ObjectMeta: meta.ObjectMeta{
			Name: podName(instance, c.Key), Annotations: notes, Labels: of(instance, labelNetwork, c.Network, labelName, digest(c.Name)),
		},
		Spec: core.PodSpec{
			SchedulingGates: []core.PodSchedulingGate{{Name: gate}},
			RestartPolicy:   core.RestartPolicyNever, Hostname: "sandbox", HostAliases: aliases,
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), ShareProcessNamespace: new(false),
			TerminationGracePeriodSeconds: new(int64(graceSeconds)), ActiveDeadlineSeconds: deadline(c.Labels[labelExpires], now),
			NodeSelector: d.settings.NodeSelector, Tolerations: tolerations(), Volumes: v.all,
			SecurityContext: &core.PodSecurityContext{
				SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault},
				Sysctls:        []core.Sysctl{{Name: "kernel.shm_rmid_forced", Value: "1"}},
			},
		},
	}
	d.choose(&pod.Spec, c)
	prepare, run := container("prepare", c.Image), container("sandbox", c.Image)
	if d.settings.InitImage != "" {
		prepare.Image = d.settings.InitImage
	}
	prepare.Command, prepare.VolumeMounts = cs.command(), v.preparing()
	prepare.SecurityContext.Capabilities.Add = nil
	run.Command, run.Args, run.VolumeMounts, run.Env = literal(c.Entrypoint[:1]), append(literal(c.Entrypoint[1:]), "[$(POD_IP)]:"+strconv.Itoa(port)), v.mounts, environment()
	run.TerminationMessagePath = closedFolder + "/message"
	for _, one := range []*core.Container{&prepare, &run} {
		one.Resources = core.ResourceRequirements{Limits: limits, Requests: requests}
	}
	pod.Spec.InitContainers, pod.Spec.Containers = []core.Container{prepare}, []core.Container{run}
	return pod, nil
}

// choose sets what depends on settings, network and runtime.
func (d *driver) choose(s *core.PodSpec, c sandbox.Container) {
	for _, name := range d.settings.ImagePullSecrets {
		s.ImagePullSecrets = append(s.ImagePullSecrets, core.LocalObjectReference{Name: name})
	}
	if d.settings.UserNamespaces {
		s.HostUsers = new(false)
	}
	if c.Runtime != "" {
		s.RuntimeClassName = &c.Runtime
	}
	s.DNSPolicy = core.DNSClusterFirst
	if c.Network == sandbox.NetworkNone { // nobody answers there; the policy would let nothing pass anyway
		s.DNSPolicy, s.DNSConfig = core.DNSNone, &core.PodDNSConfig{Nameservers: []string{"127.0.0.1"}}
	}
}

// container has what all containers of a Pod have.
func container(name, image string) core.Container {
	return core.Container{
		Name: name, Image: image, ImagePullPolicy: core.PullIfNotPresent, WorkingDir: "/",
		TerminationMessagePolicy: core.TerminationMessageReadFile,
		SecurityContext: &core.SecurityContext{
			RunAsUser: new(int64(0)), RunAsGroup: new(int64(0)), Privileged: new(false), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}, Add: []core.Capability{"SETUID", "SETGID", "KILL"}},
		},
	}
}

// environment is the Pod's address, and nothing for the variables of the image that would change the supervisor.
func environment() []core.EnvVar {
	env := []core.EnvVar{{Name: "POD_IP", ValueFrom: &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}}}
	for _, name := range []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"} {
		env = append(env, core.EnvVar{Name: name})
	}
	return env
}

// literal are arguments in which Kubernetes replaces nothing.
func literal(args []string) (all []string) {
	for _, a := range args {
		all = append(all, strings.ReplaceAll(a, "$", "$$"))
	}
	return all
}

func tolerations() (all []core.Toleration) {
	for _, key := range []string{core.TaintNodeNotReady, core.TaintNodeUnreachable} {
		all = append(all, core.Toleration{Key: key, Operator: core.TolerationOpExists, Effect: core.TaintEffectNoExecute, TolerationSeconds: new(int64(away))})
	}
	return all
}

// deadline is when the cluster ends a Pod of which no host takes care any more.
func deadline(expires string, now time.Time) *int64 {
	at, err := time.Parse(time.RFC3339, expires)
	if err != nil {
		return nil
	}
	return new(int64(max(0, at.Sub(now)).Seconds()) + int64(slack.Seconds()))
}

func (d *driver) resources(c sandbox.Container, stored int64) (limits, requests core.ResourceList, err error) {
	if c.MemoryBytes <= 0 || c.CPUs <= 0 {
		return nil, nil, fmt.Errorf("%w: a container without a limit of memory and of CPU cores", sandbox.ErrCannotHold)
	}
	limits = core.ResourceList{
		core.ResourceMemory: *resource.NewQuantity(c.MemoryBytes, resource.BinarySI), core.ResourceCPU: cores(c.CPUs),
		core.ResourceEphemeralStorage: *resource.NewQuantity(stored, resource.BinarySI),
	}
	requests = maps.Clone(limits)
	if d.settings.CPURequest > 0 {
		requests[core.ResourceCPU] = cores(min(c.CPUs, d.settings.CPURequest))
	}
	return limits, requests, nil
}

func cores(n float64) resource.Quantity {
	return *resource.NewMilliQuantity(int64(math.Ceil(n*1000)), resource.DecimalSI)
}

// hostAliases are host names by address.
func hostAliases(hosts []string) (all []core.HostAlias, err error) {
	for _, h := range hosts {
		name, address, _ := strings.Cut(h, ":")
		ip, err := netip.ParseAddr(address)
		if err != nil {
			return nil, fmt.Errorf("%w: %.80q is not a host name with an address", sandbox.ErrCannotHold, h)
		}
		i := slices.IndexFunc(all, func(a core.HostAlias) bool { return a.IP == ip.String() })
		if i < 0 {
			i = len(all)
			all = append(all, core.HostAlias{IP: ip.String()})
		}
		all[i].Hostnames = append(all[i].Hostnames, name)
	}
	return all, nil
}

// checkTarget refuses paths that would not mean what they say.
func checkTarget(target string) error {
	if !path.IsAbs(target) || path.Clean(target) != target || target == "/" || strings.ContainsAny(target, ":\x00\n") {
		return fmt.Errorf("%w: a mount at %.80q", sandbox.ErrCannotHold, target)
	}
	return nil
}
