package main

import "github.com/onced/onced/idem"

// explanation is what a code means and what to do about it, for people. The
// rest of what explain prints is computed.
type explanation struct {
	code    idem.Code
	status  int
	meaning string
	next    string
}

// explanations has an entry for every code of idem, in its order.
var explanations = []explanation{
	{
		idem.CodeKeyMissing, 400, "The call names no key: none in the body, none in the Idempotency-Key header, no fingerprint.",
		"Send a key that names the intent, the same one on every retry of it. Nothing was started.",
	},
	{
		idem.CodeKeyInvalid, 400, "The key has a character or a length that keys do not have, the header and the body name different keys, or the header is there twice.",
		"A key is 8 to 256 of A-Z a-z 0-9 . _ : - and is named in one place. Nothing was started.",
	},
	{
		idem.CodeKeyExpired, 410, "The key was settled and its time is over, or it was born before the namespace's horizon. The problem's verdict says how it ended, if that is still known.",
		"Do not run again under a new key unless you know what the first did: the effect may exist. A late retry of an old request is the usual cause.",
	},
	{
		idem.CodeKeyConflict, 422, "The key is in use for another request: other content, or another operation.",
		"A bug at the caller: one key for two intents, or a retry that changed its request. Send the request as it was first sent, or take another key for another intent.",
	},
	{
		idem.CodeInFlight, 409, "Another attempt holds the key, and its lease is live.",
		"Do not run. Ask again with the same attemptId after Retry-After, or with wait (--wait 30s) to get the outcome as soon as it is there.",
	},
	{
		idem.CodeUncertain, 409, "The holder's lease is over and nobody heard of an outcome: it may have run. Waiting does not change that.",
		"Do not run. The holder can still commit with its token. Otherwise look what it did, where it would have done it, and say so: onced resolve KEY --token TOKEN --verdict ... (docs/OPERATIONS.md, an uncertain key at night).",
	},
	{
		idem.CodeCancelled, 409, "The key was cancelled before it could start, and never will.",
		"Nothing ran under this key. If the intent is wanted after all, take a new key.",
	},
	{
		idem.CodeDuplicate, 409, "The key is settled, and this namespace refuses duplicates instead of replaying (onDuplicate: reject).",
		"The first attempt is done; its status is in the problem's record. Do not run.",
	},
	{
		idem.CodeAttemptSpent, 409, "This attemptId gave the key back (released), and a delayed copy of its reserve has arrived.",
		"A retry that is meant makes a new attemptId; a copy of an old call is dropped.",
	},
	{
		idem.CodeNotFound, 404, "The namespace has no record of this key.",
		"Check the key and the namespace. A record is removed when its ttl and retention are over; to reserve it is to make it.",
	},
	{
		idem.CodeStaleToken, 409, "The token is not that of the key's latest claim, or the key is held no longer. The record is unchanged.",
		"Whoever sent it is not the holder any more: another attempt is, or the key was given back or cancelled. Do not settle for others; look at it: onced key get KEY.",
	},
	{
		idem.CodeTokenMissing, 400, "The call settles a key and carries no token.",
		"Send the token from the answer to reserve, as a decimal string.",
	},
	{
		idem.CodeAlreadySettled, 409, "The key has an outcome, and the call wanted another one. Nothing was overwritten; the outcome is in the problem's record.",
		"Take the recorded outcome. If both are true the effect happened twice or is reported wrongly: look into it.",
	},
	{
		idem.CodeStaleVersion, 412, "The record or namespace is not at the version that expectedVersion or If-Match names: it was changed meanwhile. Nothing was changed.",
		"Read it again, and decide again.",
	},
	{
		idem.CodeUnavailable, 503, "No decision within the deadline: no leader, no quorum, or this node cannot serve. applied tells whether it may have been decided all the same.",
		"Repeat the same call, with the same attemptId or token, to any node, after Retry-After: that is safe even when applied is unknown. Until it is answered, do not run. Look at the cluster: onced node ls, onced check ready.",
	},
	{
		idem.CodeInvalidRequest, 400, "The call is malformed; detail names the field.",
		"Mend the call. Nothing was started.",
	},
	{
		idem.CodeRequestTooLarge, 413, "The body is over 1 MiB.",
		"Send a digest of a large request (requestHash) instead of the request. A response over 256 KiB is not kept anyway.",
	},
	{
		idem.CodeUnsupportedMediaType, 415, "The body is not declared as JSON, or is compressed.",
		"Send Content-Type: application/json, in UTF-8, uncompressed.",
	},
	{
		idem.CodeUnauthorized, 401, "The call carries no credentials, or some that this cluster does not know.",
		"Send a token of this cluster in the Authorization header.",
	},
	{
		idem.CodeForbidden, 403, "The credentials are not good for this namespace or this operation.",
		"Use credentials with the role; resolve and policies need admin. The answer tells nothing of the key.",
	},
	{
		idem.CodeNamespaceNotFound, 404, "There is no such namespace. They are made first, so that a typo does not open a second domain of keys.",
		"Check the name (onced ns ls), or make it: onced ns set NAME.",
	},
	{
		idem.CodeNamespaceRetired, 410, "The namespace was deleted. Its name is never given out again.",
		"Use another name.",
	},
	{
		idem.CodeNamespaceNotEmpty, 409, "The namespace holds records, so it was not deleted.",
		"Let them expire, or drop them with their outcomes: onced ns rm NAME --force.",
	},
	{
		idem.CodeQuotaExceeded, 429, "The namespace is at its maxRecords or maxBytes: no new claims. Replays, resumes and settlements still work.",
		"Wait until records are swept, or raise the quota: onced ns set NAME --max-records N. A shorter retention makes room sooner.",
	},
	{
		idem.CodeOverloaded, 503, "More calls wait than the leader takes. Nothing was proposed.",
		"Repeat the same call after Retry-After. If it lasts: fewer callers at a time, batches, or a faster disk.",
	},
	{
		idem.CodeRouteNotFound, 404, "The path is none of this API; a trailing slash makes another path.",
		"GET /openapi.json lists the paths. A client newer than the server asks for paths it has not yet.",
	},
	{
		idem.CodeMethodNotAllowed, 405, "The path does not take this method; the Allow header lists those it takes.",
		"GET /openapi.json lists the methods.",
	},
	{
		idem.CodeInternal, 500, "A fault of the server. Whether the call was decided is not known.",
		"Repeat the same call, with the same attemptId or token. Report it with the correlation id, which is in the node's log.",
	},
}
