package kubetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodeCPUs is how many CPU cores the node offers to one Pod.
const nodeCPUs = 64

// kubelet is the node. Its store calls it with the store's lock held.
type kubelet struct {
	store *store
	dir   string

	mu   sync.Mutex
	dead bool
	runs map[types.UID]context.CancelFunc
	work sync.WaitGroup
}

func newKubelet(dir string) *kubelet {
	return &kubelet{dir: dir, runs: map[types.UID]context.CancelFunc{}}
}

// sees begins to run a Pod, or ends one that is being deleted.
func (k *kubelet) sees(o *object) {
	if o.GetDeletionTimestamp() != nil {
		k.ends(o.GetUID())
		return
	}
	p := podOf(o)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runs[p.UID] != nil || len(p.Spec.SchedulingGates) > 0 || p.Status.Phase != core.PodPending {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.runs[p.UID] = cancel
	k.work.Go(func() {
		r := &run{kubelet: k, pod: p, dir: filepath.Join(k.dir, string(p.UID)), name: "kubetest-" + p.Name}
		r.live(ctx)
		cancel()
		k.mu.Lock()
		delete(k.runs, p.UID)
		k.mu.Unlock()
		k.store.ended(p.Name, p.UID)
	})
}

// has reports whether the node has a Pod.
func (k *kubelet) has(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.runs[uid] != nil
}

func (k *kubelet) ends(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if cancel := k.runs[uid]; cancel != nil && !k.dead {
		cancel()
	}
}

// end ends all Pods.
func (k *kubelet) end() {
	k.mu.Lock()
	for _, cancel := range k.runs {
		cancel()
	}
	k.mu.Unlock()
	k.work.Wait()
}

// run is the life of a Pod on the node.
type run struct {
	*kubelet
	pod  core.Pod
	dir  string
	name string // of its containers, with a suffix
	ip   string
}

// live runs a Pod until it ends or ctx does, when nothing is left of it on the node.
func (r *run) live(ctx context.Context) {
	defer os.RemoveAll(r.dir)
	if r.pod.Spec.Containers[0].Resources.Requests.Cpu().Value() > nodeCPUs {
		r.condition(core.ConditionFalse, "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
		<-ctx.Done()
		return
	}
	r.condition(core.ConditionTrue, "", "")
	if s := r.pod.Spec.ActiveDeadlineSeconds; s != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*s)*time.Second)
		defer cancel()
	}
	r.ip = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	err := r.volumes(ctx)
	for i := 0; err == nil && i < len(r.pod.Spec.InitContainers); i++ {
		if err = r.pulled(ctx, r.pod.Spec.InitContainers[i], true); err == nil {
			err = r.initialise(ctx, r.pod.Spec.InitContainers[i])
		}
	}
	main := r.pod.Spec.Containers[0]
	if err == nil {
		err = r.pulled(ctx, main, false)
	}
	if err == nil {
		err = r.serve(ctx, main)
	}
	reason := ""
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		reason = "DeadlineExceeded"
	}
	r.store.status(r.pod.Name, r.pod.UID, func(s *core.PodStatus) {
		s.Phase, s.Reason, s.Message = core.PodSucceeded, reason, ""
		if err != nil {
			s.Phase, s.Message = core.PodFailed, err.Error()
		}
	})
}

func (r *run) condition(is core.ConditionStatus, reason, message string) {
	r.store.status(r.pod.Name, r.pod.UID, func(s *core.PodStatus) {
		s.Conditions = []core.PodCondition{{Type: core.PodScheduled, Status: is, Reason: reason, Message: message}}
	})
}

// pulled waits until the engine has the image of a container.
func (r *run) pulled(ctx context.Context, c core.Container, init bool) error {
	reason := "ErrImagePull"
	for {
		if _, err := docker(ctx, "image", "inspect", "--", c.Image); err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		r.store.status(r.pod.Name, r.pod.UID, func(s *core.PodStatus) {
			is := core.ContainerStatus{Name: c.Name, Image: c.Image, State: core.ContainerState{Waiting: &core.ContainerStateWaiting{
				Reason: reason, Message: fmt.Sprintf("failed to pull image %q: not found", c.Image),
			}}}
			if init {
				s.InitContainerStatuses = []core.ContainerStatus{is}
			} else {
				s.ContainerStatuses = []core.ContainerStatus{is}
			}
		})
		reason = "ImagePullBackOff"
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// initialise runs an init container.
func (r *run) initialise(ctx context.Context, c core.Container) error {
	name := r.name + "-" + c.Name
	args, err := r.arguments(c, name, "none")
	if err != nil {
		return err
	}
	defer r.kill(name)
	if out, err := docker(ctx, append([]string{"run", "--rm"}, args...)...); err != nil {
		return fmt.Errorf("init container %s: %w: %s", c.Name, err, out)
	}
	r.store.status(r.pod.Name, r.pod.UID, func(s *core.PodStatus) {
		s.InitContainerStatuses = []core.ContainerStatus{{Name: c.Name, Image: c.Image, State: core.ContainerState{Terminated: &core.ContainerStateTerminated{}}}}
	})
	return nil
}

// serve runs the main container.
func (r *run) serve(ctx context.Context, c core.Container) error {
	name := r.name + "-" + c.Name
	args, err := r.arguments(c, name, "host")
	if err != nil {
		return err
	}
	defer r.kill(name)
	if out, err := docker(ctx, append([]string{"run", "--detach"}, args...)...); err != nil {
		return fmt.Errorf("container %s: %w: %s", c.Name, err, out)
	}
	r.store.status(r.pod.Name, r.pod.UID, func(s *core.PodStatus) {
		s.Phase, s.PodIP = core.PodRunning, r.ip
		s.ContainerStatuses = []core.ContainerStatus{{Name: c.Name, Image: c.Image, State: core.ContainerState{Running: &core.ContainerStateRunning{}}}}
	})
	out, err := docker(ctx, "wait", name)
	code, _ := strconv.Atoi(strings.TrimSpace(out))
	if ctx.Err() != nil {
		code = 137
	}
	r.store.status(r.pod.Name, r.pod.UID, func(s *core.PodStatus) {
		s.ContainerStatuses[0].State = core.ContainerState{Terminated: &core.ContainerStateTerminated{ExitCode: int32(code)}}
	})
	if err == nil && code != 0 {
		err = fmt.Errorf("container %s ended with exit code %d", c.Name, code)
	}
	return err
}

// kill removes a container; ctx of the Pod may be over.
func (r *run) kill(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, _ = docker(ctx, "rm", "--force", "--volumes", name)
}

// docker runs the docker command.
func docker(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", args...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
