package within

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Descriptors of the folders that are put on each other. No other of the process is as high.
const (
	upperFD = 100
	lowerFD = 101
)

// image puts the view on the files of an image, for reading: a folder that both have has the entries of both, and anything else of the view is in
// place of what the image has, such as a link. So no link of the image is followed on the way to a mount.
func (c Config) image(p *plan) {
	p.step("show the files of the image at " + c.Image)
	lower := new(int32)
	p.do(unix.SYS_OPENAT, uintptr(cwd), p.text(c.Image), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC).out = lower
	p.do(unix.SYS_DUP3, 0, upperFD, unix.O_CLOEXEC).with(0, &p.root)
	p.do(unix.SYS_DUP3, 0, lowerFD, unix.O_CLOEXEC).with(0, lower)
	layers := fmt.Sprintf("lowerdir=/proc/self/fd/%d:/proc/self/fd/%d", upperFD, lowerFD)
	p.do(unix.SYS_MOUNT, p.text("flynn"), p.text(p.base), p.text("overlay"), unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, p.text(layers))
	p.do(unix.SYS_CLOSE_RANGE, upperFD, lowerFD, 0)
	p.close(lower)
	p.close(&p.root)
	p.openPath(p.base, &p.root)
}
