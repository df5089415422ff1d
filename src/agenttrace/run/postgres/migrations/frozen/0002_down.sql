DROP INDEX biz.idx_member_retention_clue_day;
ALTER TABLE biz.member_retention_clue DROP COLUMN clue_date, DROP COLUMN trigger_job_id, DROP COLUMN updated_at;
INSERT INTO biz.member_retention_clue (id, site_id, member_id, summary, clues, source, created_at)
    SELECT id, site_id, member_id, summary, clues, source, created_at FROM biz.member_retention_clue_replaced;
DROP TABLE biz.member_retention_clue_replaced;
DROP INDEX biz.idx_ai_cache_valid, biz.idx_ai_cache_generating, biz.idx_ai_cache_age, biz.idx_ai_cache_expiry;
DELETE FROM biz.ai_cache WHERE result_json IS NULL;
ALTER TABLE biz.ai_cache DROP CONSTRAINT ck_ai_cache_result, DROP COLUMN status;
ALTER TABLE biz.ai_cache ALTER COLUMN result_json SET NOT NULL;
ALTER TABLE biz.ai_messages DROP COLUMN run_log_id;
DROP INDEX biz.idx_ai_conversations_session;
ALTER TABLE biz.ai_conversations DROP COLUMN session_id, DROP COLUMN cloud_session_id, DROP COLUMN cloud_rounds,
    DROP COLUMN cloud_used_at, DROP COLUMN local_history;
DROP TABLE biz.ai_trigger_jobs;
DROP TABLE biz.ai_run_logs;
