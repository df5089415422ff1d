DROP FUNCTION biz.ai_conversation_answer, biz.ai_conversation_resolve, biz.ai_clue_write, biz.ai_cache_store,
    biz.ai_cache_begin, biz.ai_cache_lock;

DROP FUNCTION biz.ai_admit, biz.ai_rate_hit, biz.ai_breaker_release, biz.ai_breaker_failure, biz.ai_breaker_success,
    biz.ai_breaker_heal, biz.ai_breaker_check, biz.ai_set_business_zone;
DROP TRIGGER ai_run_logs_account_new ON biz.ai_run_logs;
DROP TRIGGER ai_run_logs_account_gone ON biz.ai_run_logs;
DROP TRIGGER ai_run_logs_account_changed ON biz.ai_run_logs;
DROP TRIGGER ai_run_logs_emptied ON biz.ai_run_logs;
DROP FUNCTION biz.ai_run_logs_account, biz.ai_run_logs_emptied, biz.ai_business_day;
DROP TABLE biz.ai_business_zone, biz.ai_budget_days, biz.ai_rate_windows, biz.ai_breakers, biz.ai_processes;
