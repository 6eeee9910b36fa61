package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/machine"
)

// settle makes sure that a box, if it is one, is gone, so that nothing in it writes to the workspace any more.
func (b *box) settle() error {
	if b == nil {
		return nil
	}
	<-b.gone
	if b.removal == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	if err := errors.Join(b.project.remove(), b.debts.Remove(ctx, b.id)); err != nil {
		return err
	}
	b.isRemoved()
	return nil
}

// Locator is a Driver that can tell where its engine is.
type Locator interface {
	Address() string
}

// whyLost is what people are told when the container's stream has ended by itself.
func (b *box) whyLost() error {
	if err := b.driver.Ping(context.Background()); err != nil {
		return errors.New(machine.Reason(err))
	}
	where := ""
	if l, ok := b.driver.(Locator); ok {
		where = " on engine " + l.Address()
	}
	return fmt.Errorf("its container ended%s: the next command gets a new one", where)
}
