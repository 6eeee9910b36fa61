package service

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

func checkKey(key string) error {
	if key == "" || len(key) > maxKey {
		return status.Errorf(codes.InvalidArgument, "a key must have 1 to %d bytes", maxKey)
	}
	return nil
}

// GetValue implements hostv1.HostServer.
func (s *Server) GetValue(ctx context.Context, r *hostv1.GetValueRequest) (*hostv1.GetValueResponse, error) {
	if err := checkKey(r.GetKey()); err != nil {
		return nil, err
	}
	value, err := s.config.Values.Value(ctx, guestOf(ctx).instance, r.GetKey())
	if errors.Is(err, store.ErrNotFound) {
		return &hostv1.GetValueResponse{}, nil
	}
	if err != nil {
		return nil, s.trouble(ctx, "read a value", err)
	}
	return &hostv1.GetValueResponse{Found: true, Value: value}, nil
}

// SetValue implements hostv1.HostServer.
func (s *Server) SetValue(ctx context.Context, r *hostv1.SetValueRequest) (*hostv1.SetValueResponse, error) {
	if err := checkKey(r.GetKey()); err != nil {
		return nil, err
	}
	if len(r.GetValue()) > maxValue {
		return nil, status.Errorf(codes.InvalidArgument, "a value must have at most %d bytes", maxValue)
	}
	g := guestOf(ctx)
	if err := spend(g.writes, 1, "too many values are written"); err != nil {
		return nil, err
	}
	err := s.config.Values.SetValue(ctx, g.instance, r.GetKey(), r.GetValue(), valueRoom())
	if errors.Is(err, store.ErrNoRoom) {
		return nil, tooMuch("the instance has too many values: delete some", time.Minute)
	}
	if err != nil {
		return nil, s.trouble(ctx, "write a value", err)
	}
	return &hostv1.SetValueResponse{}, nil
}

// DeleteValue implements hostv1.HostServer.
func (s *Server) DeleteValue(ctx context.Context, r *hostv1.DeleteValueRequest) (*hostv1.DeleteValueResponse, error) {
	if err := checkKey(r.GetKey()); err != nil {
		return nil, err
	}
	g := guestOf(ctx)
	if err := spend(g.writes, 1, "too many values are written"); err != nil {
		return nil, err
	}
	if err := s.config.Values.DeleteValue(ctx, g.instance, r.GetKey()); err != nil {
		return nil, s.trouble(ctx, "delete a value", err)
	}
	return &hostv1.DeleteValueResponse{}, nil
}

// ListKeys implements hostv1.HostServer.
func (s *Server) ListKeys(ctx context.Context, r *hostv1.ListKeysRequest) (*hostv1.ListKeysResponse, error) {
	if len(r.GetPrefix()) > maxKey || len(r.GetAfter()) > maxKey {
		return nil, status.Errorf(codes.InvalidArgument, "a key has at most %d bytes", maxKey)
	}
	limit := maxList
	if n := r.GetLimit(); n > 0 && n < maxList {
		limit = int(n)
	}
	keys, err := s.config.Values.ListValues(ctx, guestOf(ctx).instance, r.GetPrefix(), r.GetAfter(), limit)
	if err != nil {
		return nil, s.trouble(ctx, "list keys", err)
	}
	return &hostv1.ListKeysResponse{Keys: keys}, nil
}
