package config

// code checks the containers of an agent's programs.
func (c *checker) code(at keyPath, agent Agent) {
	if agent.Kind != "code" {
		return
	}
	if !c.cfg.Sandbox.Enabled {
		c.report(at.child("kind"), "programs of an agent of kind code run in containers, and [sandbox] is not enabled", "write enabled = true under [sandbox]")
	}
	at = at.child("code")
	s := agent.Code.sandbox(c.cfg.Sandbox.MountRoots)
	c.image(at, s)
	if agent.Code.Writes("javascript") && s.Dockerfile == "" {
		c.required(at.child("javascript_image"), agent.Code.JavaScriptImage, `"node:22-slim"`)
		c.files(at.child("javascript_image"), agent.Code.JavaScriptImage)
	}
	c.mounts(at, s)
	if s.Network == "allowlist" && len(s.Allowlist) == 0 {
		c.report(at.child("network"), "allowlist is empty", `name what may be reached, such as allowlist = ["pypi.org:443"]`)
	}
	for i, target := range s.Allowlist {
		c.target(at.child("allowlist").index(i), target)
	}
}
