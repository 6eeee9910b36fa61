package main

import "github.com/flynnhost/flynn/sdk/policy"

// setting is a value of the policy's data, or its default. A list is words separated by blanks.
func setting(key string) string {
	if v, ok := policy.Data(key); ok {
		return v
	}
	return builtin(key)
}

// builtin must agree with the [data] of policy.toml; a test compares them.
func builtin(key string) string {
	switch key {
	case "network_tools":
		return "web.fetch web.search"
	case "input_tools":
		return "process.write"
	case "shell_tools":
		return "shell.exec shell.run process.start"
	case "sandbox_tools":
		return "file.read file.list file.write file.edit process.list process.output process.kill"
	case "free_tools":
		return "memory.write"
	case "command_pointer":
		return "/command"
	case "network_commands":
		return "curl curlie wget wget2 aria2c axel http https httpie xh lynx links elinks w3m " +
			"nc ncat netcat nc.openbsd nc.traditional socat telnet ftp sftp tftp lftp ssh sshfs scp rsync mosh autossh " +
			"dig nslookup host drill ping ping6 traceroute tracepath mtr nmap whois " +
			"smbclient ldapsearch snmpget mail sendmail msmtp swaks openssl gnutls-cli psql mysql redis-cli mongosh ngrok cloudflared deno bun"
	}
	return ""
}
