package main

import (
	"github.com/urfave/cli/v3"
)

func shadowPolicyCommand() *cli.Command { return &cli.Command{Name: "shadow", Hidden: true} }
