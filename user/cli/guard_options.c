// SPDX-License-Identifier: BSD-2-Clause
#include "cli/guard_options.h"

#include "cli/cli.h"
#include "cli/secret.h"

const struct option_row guard_rows[] = {
	{"tls-cert", .arg = "FILE", .take = take_text, .to = offsetof(struct guard_config, cert),
	 .help = "serve over TLS: the certificate, PEM",
	 .man = "The file also holds the certificates that lead to the issuer, if there are any. "
		"All addresses except unix sockets are then served over TLS. An address that other "
		"hosts reach needs --tls-cert, --tls-key and --token-file."},
	{"tls-key", .arg = "FILE", .take = take_text, .to = offsetof(struct guard_config, key),
	 .help = "the private key of that certificate, PEM",
	 .man = "The key must not be encrypted. Only the file's owner and its group may have the "
		"right to read it. Like the certificate and the token, the key is read at the "
		"start and at each reload, with privileges."},
	{"token-file", .arg = "FILE", .take = take_text, .to = offsetof(struct guard_config, token),
	 .help = "answer only requests that have the bearer token in this file",
	 .man = "One line of at least 16 letters, digits and -._~+/=. Only the file's owner and "
		"its group may have the right to read it. Unix sockets and /healthz do not ask "
		"for the token."},
	{},
};

int guard_config__read(const struct guard_config *c, const char *command,
		       const char *for_other_hosts, struct guard *ret)
{
	int rc;

	*ret = (struct guard){};
	if (!c->cert != !c->key)
		return usage_error(command, "give both --tls-cert and --tls-key, or neither");
	if (for_other_hosts && (!c->cert || !c->token))
		return usage_error(
			command,
			"'%s' is reached from other hosts, which would see what processes do here: "
			"give --tls-cert, --tls-key and --token-file, or listen on 127.0.0.1",
			for_other_hosts);
	rc = c->token ? secret__read_token(command, c->token, true, GUARD_TOKEN_LEAST,
					   GUARD_TOKEN_MOST, &ret->token)
		      : 0;
	if (!rc && c->cert)
		rc = secret__read(command, c->cert, false, GUARD_PEM_MOST, &ret->cert)
			     ?: secret__read(command, c->key, true, GUARD_PEM_MOST, &ret->key);
	return rc;
}
