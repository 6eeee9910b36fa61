package native_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func usage() float64 {
	b, _ := os.ReadFile("/sys/fs/cgroup/cpuacct/native-bench/cpuacct.usage")
	n, _ := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
	return n / 1000
}

func TestScratch(t *testing.T) {
	if os.Getenv("SCRATCH") == "" {
		t.Skip()
	}
	m := manager(t)
	var wall, cpu, cpud []float64
	for i := range 60 {
		session := message.WorkspaceKey(fmt.Sprintf("web:first-%d", i))
		time.Sleep(5 * time.Millisecond)
		c, b := usage(), time.Now()
		s, err := m.Get(t.Context(), session, "default", small)
		if err == nil {
			_, err = s.Exec(t.Context(), machine.Command{Script: "true"})
		}
		if err != nil {
			t.Fatal(err)
		}
		wall = append(wall, float64(time.Since(b).Microseconds()))
		cpu = append(cpu, usage()-c)
		c = usage()
		if err := m.Destroy(context.Background(), session); err != nil {
			t.Fatal(err)
		}
		cpud = append(cpud, usage()-c)
	}
	for n, x := range map[string][]float64{"wall": wall, "cpu": cpu, "destroycpu": cpud} {
		slices.Sort(x)
		fmt.Printf("%s min %.0f p10 %.0f p50 %.0f\n", n, x[0], x[6], x[30])
	}
}
