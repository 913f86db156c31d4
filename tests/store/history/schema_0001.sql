-- sqlite
CREATE TABLE alert (
	rule VARCHAR(20) NOT NULL,
	pool TEXT NOT NULL,
	severity VARCHAR(10) NOT NULL,
	content TEXT NOT NULL,
	PRIMARY KEY (rule, pool, severity)
);
CREATE TABLE audit (
	id INTEGER NOT NULL,
	at BIGINT NOT NULL,
	action VARCHAR(40) NOT NULL,
	result VARCHAR(10) NOT NULL,
	reason TEXT NOT NULL,
	visitor TEXT NOT NULL,
	role VARCHAR(10) NOT NULL,
	means VARCHAR(10) NOT NULL,
	client TEXT NOT NULL,
	details TEXT NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX ix_audit_at ON audit (at);
CREATE TABLE body (
	id INTEGER NOT NULL,
	sha BLOB NOT NULL,
	base INTEGER,
	content BLOB NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (sha),
	FOREIGN KEY(base) REFERENCES body (id)
);
CREATE INDEX ix_body_base ON body (base);
CREATE TABLE cohort_span (
	id INTEGER NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT,
	last_seen BIGINT,
	pool TEXT NOT NULL,
	document VARCHAR(20) NOT NULL,
	letter VARCHAR(10) NOT NULL,
	replicas INTEGER NOT NULL,
	version TEXT,
	first_seen BIGINT NOT NULL,
	since BIGINT NOT NULL,
	absent_at BIGINT,
	PRIMARY KEY (id)
);
CREATE INDEX cohort_span_times ON cohort_span (from_at, to_at);
CREATE INDEX ix_cohort_span_pool ON cohort_span (pool);
CREATE TABLE difference_span (
	id INTEGER NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT,
	last_seen BIGINT,
	pool TEXT NOT NULL,
	path TEXT NOT NULL,
	first_seen BIGINT NOT NULL,
	since BIGINT NOT NULL,
	absent_at BIGINT,
	PRIMARY KEY (id)
);
CREATE INDEX difference_span_times ON difference_span (from_at, to_at);
CREATE INDEX ix_difference_span_pool ON difference_span (pool);
CREATE TABLE finding_span (
	id INTEGER NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT,
	last_seen BIGINT,
	fingerprint VARCHAR(20) NOT NULL,
	rule VARCHAR(20) NOT NULL,
	subject TEXT NOT NULL,
	severity VARCHAR(10) NOT NULL,
	suppressed BOOLEAN NOT NULL,
	ruleset INTEGER NOT NULL,
	findings INTEGER NOT NULL,
	sentence TEXT NOT NULL,
	replicas INTEGER,
	total INTEGER,
	first_seen BIGINT NOT NULL,
	since BIGINT NOT NULL,
	absent_at BIGINT,
	PRIMARY KEY (id)
);
CREATE INDEX finding_span_times ON finding_span (from_at, to_at);
CREATE INDEX ix_finding_span_fingerprint ON finding_span (fingerprint);
CREATE TABLE meta (
	"key" VARCHAR(40) NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY ("key")
);
CREATE TABLE notification (
	id INTEGER NOT NULL,
	receiver TEXT NOT NULL,
	rule VARCHAR(20) NOT NULL,
	pool TEXT NOT NULL,
	severity VARCHAR(10) NOT NULL,
	message VARCHAR(20),
	is_end BOOLEAN NOT NULL,
	content TEXT NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX ix_notification_message ON notification (message);
CREATE INDEX ix_notification_receiver ON notification (receiver);
CREATE TABLE notified (
	receiver TEXT NOT NULL,
	pool TEXT NOT NULL,
	at BIGINT NOT NULL,
	PRIMARY KEY (receiver, pool)
);
CREATE TABLE poll (
	at BIGINT NOT NULL,
	due BIGINT NOT NULL,
	answered INTEGER NOT NULL,
	total INTEGER NOT NULL,
	PRIMARY KEY (at)
);
CREATE TABLE replica (
	id INTEGER NOT NULL,
	address TEXT NOT NULL,
	pod TEXT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (address, pod)
);
CREATE TABLE session (
	id VARCHAR(64) NOT NULL,
	name TEXT NOT NULL,
	means VARCHAR(10) NOT NULL,
	groups TEXT NOT NULL,
	token VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	active_at BIGINT NOT NULL,
	ends_at BIGINT NOT NULL,
	refreshed_at BIGINT NOT NULL,
	sealed BLOB NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX ix_session_ends_at ON session (ends_at);
CREATE TABLE snapshot (
	"key" VARCHAR(32) NOT NULL,
	sha BLOB NOT NULL,
	size_bytes BIGINT NOT NULL,
	metadata BLOB NOT NULL,
	content BLOB NOT NULL,
	PRIMARY KEY ("key")
);
CREATE TABLE traffic (
	id INTEGER NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT NOT NULL,
	pool TEXT NOT NULL,
	document VARCHAR(20) NOT NULL,
	seconds FLOAT NOT NULL,
	queries FLOAT,
	hits FLOAT,
	external_queries FLOAT,
	external_hits FLOAT,
	prompt_tokens FLOAT,
	requests FLOAT,
	preemptions FLOAT,
	first_token_seconds FLOAT,
	first_tokens FLOAT,
	prefill_seconds FLOAT,
	computed_tokens FLOAT,
	waiting FLOAT,
	kv_usage FLOAT,
	PRIMARY KEY (id)
);
CREATE INDEX ix_traffic_from_at ON traffic (from_at);
CREATE INDEX traffic_pools ON traffic (pool, from_at);
CREATE TABLE watch (
	id INTEGER NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT NOT NULL,
	due BIGINT NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE document_span (
	id INTEGER NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT,
	last_seen BIGINT,
	document VARCHAR(20) NOT NULL,
	body INTEGER NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(body) REFERENCES body (id)
);
CREATE INDEX document_span_times ON document_span (from_at, to_at);
CREATE INDEX ix_document_span_body ON document_span (body);
CREATE INDEX ix_document_span_document ON document_span (document);
CREATE TABLE fleet_span (
	id INTEGER NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT,
	last_seen BIGINT,
	body INTEGER NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(body) REFERENCES body (id)
);
CREATE INDEX fleet_span_times ON fleet_span (from_at, to_at);
CREATE INDEX ix_fleet_span_body ON fleet_span (body);
CREATE TABLE replica_span (
	id INTEGER NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT,
	last_seen BIGINT,
	replica_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	pool TEXT,
	version TEXT,
	started_at BIGINT,
	state VARCHAR(10) NOT NULL,
	reason VARCHAR(20),
	document VARCHAR(20),
	process INTEGER NOT NULL,
	answers INTEGER NOT NULL,
	fresh BOOLEAN NOT NULL,
	observed_at BIGINT,
	times TEXT NOT NULL,
	limited_at BIGINT,
	first_seen BIGINT NOT NULL,
	since BIGINT NOT NULL,
	absent_at BIGINT,
	PRIMARY KEY (id),
	FOREIGN KEY(replica_id) REFERENCES replica (id),
	FOREIGN KEY(process) REFERENCES body (id),
	FOREIGN KEY(answers) REFERENCES body (id)
);
CREATE INDEX ix_replica_span_answers ON replica_span (answers);
CREATE INDEX ix_replica_span_document ON replica_span (document);
CREATE INDEX ix_replica_span_process ON replica_span (process);
CREATE INDEX ix_replica_span_replica_id ON replica_span (replica_id);
CREATE INDEX replica_span_times ON replica_span (from_at, to_at);
CREATE TABLE snapshot_answers (
	snapshot VARCHAR(32) NOT NULL,
	replica INTEGER NOT NULL,
	content BLOB NOT NULL,
	PRIMARY KEY (snapshot, replica),
	FOREIGN KEY(snapshot) REFERENCES snapshot ("key")
);

-- postgresql
CREATE TABLE alert (
	rule VARCHAR(20) NOT NULL,
	pool TEXT NOT NULL,
	severity VARCHAR(10) NOT NULL,
	content TEXT NOT NULL,
	PRIMARY KEY (rule, pool, severity)
);
CREATE TABLE audit (
	id BIGSERIAL NOT NULL,
	at BIGINT NOT NULL,
	action VARCHAR(40) NOT NULL,
	result VARCHAR(10) NOT NULL,
	reason TEXT NOT NULL,
	visitor TEXT NOT NULL,
	role VARCHAR(10) NOT NULL,
	means VARCHAR(10) NOT NULL,
	client TEXT NOT NULL,
	details TEXT NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX ix_audit_at ON audit (at);
CREATE TABLE body (
	id BIGSERIAL NOT NULL,
	sha BYTEA NOT NULL,
	base BIGINT,
	content BYTEA NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (sha),
	FOREIGN KEY(base) REFERENCES body (id)
);
CREATE INDEX ix_body_base ON body (base);
CREATE TABLE cohort_span (
	id BIGSERIAL NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT,
	last_seen BIGINT,
	pool TEXT NOT NULL,
	document VARCHAR(20) NOT NULL,
	letter VARCHAR(10) NOT NULL,
	replicas INTEGER NOT NULL,
	version TEXT,
	first_seen BIGINT NOT NULL,
	since BIGINT NOT NULL,
	absent_at BIGINT,
	PRIMARY KEY (id)
);
CREATE INDEX cohort_span_times ON cohort_span (from_at, to_at);
CREATE INDEX ix_cohort_span_pool ON cohort_span (pool);
CREATE TABLE difference_span (
	id BIGSERIAL NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT,
	last_seen BIGINT,
	pool TEXT NOT NULL,
	path TEXT NOT NULL,
	first_seen BIGINT NOT NULL,
	since BIGINT NOT NULL,
	absent_at BIGINT,
	PRIMARY KEY (id)
);
CREATE INDEX difference_span_times ON difference_span (from_at, to_at);
CREATE INDEX ix_difference_span_pool ON difference_span (pool);
CREATE TABLE finding_span (
	id BIGSERIAL NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT,
	last_seen BIGINT,
	fingerprint VARCHAR(20) NOT NULL,
	rule VARCHAR(20) NOT NULL,
	subject TEXT NOT NULL,
	severity VARCHAR(10) NOT NULL,
	suppressed BOOLEAN NOT NULL,
	ruleset INTEGER NOT NULL,
	findings INTEGER NOT NULL,
	sentence TEXT NOT NULL,
	replicas INTEGER,
	total INTEGER,
	first_seen BIGINT NOT NULL,
	since BIGINT NOT NULL,
	absent_at BIGINT,
	PRIMARY KEY (id)
);
CREATE INDEX finding_span_times ON finding_span (from_at, to_at);
CREATE INDEX ix_finding_span_fingerprint ON finding_span (fingerprint);
CREATE TABLE meta (
	key VARCHAR(40) NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (key)
);
CREATE TABLE notification (
	id BIGSERIAL NOT NULL,
	receiver TEXT NOT NULL,
	rule VARCHAR(20) NOT NULL,
	pool TEXT NOT NULL,
	severity VARCHAR(10) NOT NULL,
	message VARCHAR(20),
	is_end BOOLEAN NOT NULL,
	content TEXT NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX ix_notification_message ON notification (message);
CREATE INDEX ix_notification_receiver ON notification (receiver);
CREATE TABLE notified (
	receiver TEXT NOT NULL,
	pool TEXT NOT NULL,
	at BIGINT NOT NULL,
	PRIMARY KEY (receiver, pool)
);
CREATE TABLE poll (
	at BIGINT NOT NULL,
	due BIGINT NOT NULL,
	answered INTEGER NOT NULL,
	total INTEGER NOT NULL,
	PRIMARY KEY (at)
);
CREATE TABLE replica (
	id BIGSERIAL NOT NULL,
	address TEXT NOT NULL,
	pod TEXT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (address, pod)
);
CREATE TABLE session (
	id VARCHAR(64) NOT NULL,
	name TEXT NOT NULL,
	means VARCHAR(10) NOT NULL,
	groups TEXT NOT NULL,
	token VARCHAR(64) NOT NULL,
	created_at BIGINT NOT NULL,
	active_at BIGINT NOT NULL,
	ends_at BIGINT NOT NULL,
	refreshed_at BIGINT NOT NULL,
	sealed BYTEA NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX ix_session_ends_at ON session (ends_at);
CREATE TABLE snapshot (
	key VARCHAR(32) NOT NULL,
	sha BYTEA NOT NULL,
	size_bytes BIGINT NOT NULL,
	metadata BYTEA NOT NULL,
	content BYTEA NOT NULL,
	PRIMARY KEY (key)
);
CREATE TABLE traffic (
	id BIGSERIAL NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT NOT NULL,
	pool TEXT NOT NULL,
	document VARCHAR(20) NOT NULL,
	seconds FLOAT NOT NULL,
	queries FLOAT,
	hits FLOAT,
	external_queries FLOAT,
	external_hits FLOAT,
	prompt_tokens FLOAT,
	requests FLOAT,
	preemptions FLOAT,
	first_token_seconds FLOAT,
	first_tokens FLOAT,
	prefill_seconds FLOAT,
	computed_tokens FLOAT,
	waiting FLOAT,
	kv_usage FLOAT,
	PRIMARY KEY (id)
);
CREATE INDEX ix_traffic_from_at ON traffic (from_at);
CREATE INDEX traffic_pools ON traffic (pool, from_at);
CREATE TABLE watch (
	id BIGSERIAL NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT NOT NULL,
	due BIGINT NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE document_span (
	id BIGSERIAL NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT,
	last_seen BIGINT,
	document VARCHAR(20) NOT NULL,
	body BIGINT NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(body) REFERENCES body (id)
);
CREATE INDEX document_span_times ON document_span (from_at, to_at);
CREATE INDEX ix_document_span_body ON document_span (body);
CREATE INDEX ix_document_span_document ON document_span (document);
CREATE TABLE fleet_span (
	id BIGSERIAL NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT,
	last_seen BIGINT,
	body BIGINT NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(body) REFERENCES body (id)
);
CREATE INDEX fleet_span_times ON fleet_span (from_at, to_at);
CREATE INDEX ix_fleet_span_body ON fleet_span (body);
CREATE TABLE replica_span (
	id BIGSERIAL NOT NULL,
	from_at BIGINT NOT NULL,
	to_at BIGINT,
	last_seen BIGINT,
	replica_id BIGINT NOT NULL,
	name TEXT NOT NULL,
	pool TEXT,
	version TEXT,
	started_at BIGINT,
	state VARCHAR(10) NOT NULL,
	reason VARCHAR(20),
	document VARCHAR(20),
	process BIGINT NOT NULL,
	answers BIGINT NOT NULL,
	fresh BOOLEAN NOT NULL,
	observed_at BIGINT,
	times TEXT NOT NULL,
	limited_at BIGINT,
	first_seen BIGINT NOT NULL,
	since BIGINT NOT NULL,
	absent_at BIGINT,
	PRIMARY KEY (id),
	FOREIGN KEY(replica_id) REFERENCES replica (id),
	FOREIGN KEY(process) REFERENCES body (id),
	FOREIGN KEY(answers) REFERENCES body (id)
);
CREATE INDEX ix_replica_span_answers ON replica_span (answers);
CREATE INDEX ix_replica_span_document ON replica_span (document);
CREATE INDEX ix_replica_span_process ON replica_span (process);
CREATE INDEX ix_replica_span_replica_id ON replica_span (replica_id);
CREATE INDEX replica_span_times ON replica_span (from_at, to_at);
CREATE TABLE snapshot_answers (
	snapshot VARCHAR(32) NOT NULL,
	replica INTEGER NOT NULL,
	content BYTEA NOT NULL,
	PRIMARY KEY (snapshot, replica),
	FOREIGN KEY(snapshot) REFERENCES snapshot (key)
);
