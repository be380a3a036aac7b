-- The tables of the first servers, as SQLAlchemy made them before there were revisions, with rows of theirs.
CREATE TABLE idempotency_keys (
	"key" VARCHAR(255) NOT NULL,
	fingerprint VARCHAR(64) NOT NULL,
	job_id VARCHAR(64) NOT NULL,
	created_us BIGINT NOT NULL,
	PRIMARY KEY ("key")
);
CREATE INDEX ix_idempotency_keys_created_us ON idempotency_keys (created_us);
CREATE TABLE jobs (
	id VARCHAR(64) NOT NULL,
	created_us BIGINT NOT NULL,
	status VARCHAR(16) NOT NULL,
	resolved TEXT NOT NULL,
	waits BOOLEAN NOT NULL,
	remixed_from VARCHAR(64),
	progress INTEGER NOT NULL,
	started_us BIGINT,
	completed_us BIGINT,
	error JSON,
	files JSON NOT NULL,
	timings JSON NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX ix_jobs_created_us ON jobs (created_us);
CREATE INDEX ix_jobs_status ON jobs (status);
CREATE TABLE webhook_deliveries (
	event_id VARCHAR(64) NOT NULL,
	url VARCHAR(2000) NOT NULL,
	body TEXT NOT NULL,
	created_us BIGINT NOT NULL,
	attempts INTEGER NOT NULL,
	next_us BIGINT NOT NULL,
	PRIMARY KEY (event_id, url)
);
CREATE INDEX ix_webhook_deliveries_next_us ON webhook_deliveries (next_us);
INSERT INTO "idempotency_keys" VALUES('order-0','d3e4bfba477c639d84a21df281ec406df1f9c4b0b1f0fccf827f57664d650e33','video_00000000000000000000000000000000',1800000000000000);
INSERT INTO "idempotency_keys" VALUES('order-1','d3e4bfba477c639d84a21df281ec406df1f9c4b0b1f0fccf827f57664d650e33','video_00000000000000000000000000000001',1800000000000000);
INSERT INTO "idempotency_keys" VALUES('order-2','d3e4bfba477c639d84a21df281ec406df1f9c4b0b1f0fccf827f57664d650e33','video_00000000000000000000000000000002',1800000000000000);
INSERT INTO "idempotency_keys" VALUES('order-3','d3e4bfba477c639d84a21df281ec406df1f9c4b0b1f0fccf827f57664d650e33','video_00000000000000000000000000000003',1800000000000000);
INSERT INTO "jobs" VALUES('video_00000000000000000000000000000000',1700000000000000,'completed','{"params":{"model":"tiny","prompt":"a circle","negative_prompt":"","width":100,"height":60,"num_frames":18,"seed":0,"num_inference_steps":4,"guidance_scale":4.0,"guidance_scale_2":0.0,"boundary_ratio":0.875,"flow_shift":5.0,"max_sequence_length":64,"num_outputs":1,"image":null,"last_image":null,"latents":null},"format":"mp4","fps":"2997/125","codec_options":{"crf":"18"},"response_format":"video_bytes","stream":false}',false,NULL,100,1700000001000000,1700000002000000,NULL,'[{"name": "video.mp4", "size_bytes": 12345}]','{"generation": 0.75}');
INSERT INTO "jobs" VALUES('video_00000000000000000000000000000001',1700000000000001,'failed','{"params":{"model":"tiny","prompt":"a circle","negative_prompt":"","width":100,"height":60,"num_frames":18,"seed":0,"num_inference_steps":4,"guidance_scale":4.0,"guidance_scale_2":0.0,"boundary_ratio":0.875,"flow_shift":5.0,"max_sequence_length":64,"num_outputs":1,"image":null,"last_image":null,"latents":null},"format":"mp4","fps":"2997/125","codec_options":{"crf":"18"},"response_format":"video_bytes","stream":false}',false,NULL,40,1700000001000000,1700000002000000,'{"code": "out_of_memory", "message": "too large"}','[]','{}');
INSERT INTO "jobs" VALUES('video_00000000000000000000000000000002',1700000000000002,'in_progress','{"params":{"model":"tiny","prompt":"a circle","negative_prompt":"","width":100,"height":60,"num_frames":18,"seed":0,"num_inference_steps":4,"guidance_scale":4.0,"guidance_scale_2":0.0,"boundary_ratio":0.875,"flow_shift":5.0,"max_sequence_length":64,"num_outputs":1,"image":null,"last_image":null,"latents":null},"format":"mp4","fps":"2997/125","codec_options":{"crf":"18"},"response_format":"video_bytes","stream":false}',false,NULL,0,1700000003000000,NULL,NULL,'[]','{}');
INSERT INTO "jobs" VALUES('video_00000000000000000000000000000003',1700000000000003,'queued','{"params":{"model":"tiny","prompt":"a circle","negative_prompt":"","width":100,"height":60,"num_frames":18,"seed":0,"num_inference_steps":4,"guidance_scale":4.0,"guidance_scale_2":0.0,"boundary_ratio":0.875,"flow_shift":5.0,"max_sequence_length":64,"num_outputs":1,"image":null,"last_image":null,"latents":null},"format":"mp4","fps":"2997/125","codec_options":{"crf":"18"},"response_format":"video_bytes","stream":false}',false,NULL,0,NULL,NULL,NULL,'[]','{}');
INSERT INTO "webhook_deliveries" VALUES('evt_a96708ee1ffc1aa8e9816f5a467b1c03','https://example.com/hook','{"id": "evt_a96708ee1ffc1aa8e9816f5a467b1c03", "object": "event", "created_at": 1700000002, "type": "video.completed", "data": {"id": "video_00000000000000000000000000000000"}}',1700000002000000,0,1700000002000000);
INSERT INTO "webhook_deliveries" VALUES('evt_e02e997872f019856c8fa344717435c0','https://example.com/hook','{"id": "evt_e02e997872f019856c8fa344717435c0", "object": "event", "created_at": 1700000002, "type": "video.failed", "data": {"id": "video_00000000000000000000000000000001"}}',1700000002000000,0,1700000002000000);
