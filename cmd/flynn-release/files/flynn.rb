# The formula of the tap flynnhost/tap: brew install flynnhost/tap/flynn
class Flynn < Formula
  desc "Self-hosted host for AI agents that people talk to over chat channels"
  homepage "https://github.com/flynnhost/flynn"
  version "{{.Version}}"
  license "Apache-2.0"
{{range .Bottles}}
  on_{{.OS}} do
    on_{{.Arch}} do
      url "{{$.URL}}/{{.File}}"
      sha256 "{{.SHA256}}"
    end
  end
{{end}}
  def install
    prefix.install "bin", "lib", "share"
  end

  def caveats
    "Set Flynn up with: flynn init --dir #{etc}/flynn"
  end

  service do
    run [opt_bin/"flynn", "--config", etc/"flynn/flynn.toml", "serve"]
    keep_alive true
    working_dir var/"lib/flynn"
    log_path var/"log/flynn.log"
    error_log_path var/"log/flynn.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/flynn version")
  end
end
