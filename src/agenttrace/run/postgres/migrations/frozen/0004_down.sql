DROP TRIGGER ai_run_logs_account_new ON biz.ai_run_logs;
DROP TRIGGER ai_run_logs_account_gone ON biz.ai_run_logs;
DROP TRIGGER ai_run_logs_account_changed ON biz.ai_run_logs;
DROP TRIGGER ai_run_logs_emptied ON biz.ai_run_logs;
DROP FUNCTION biz.ai_run_logs_account, biz.ai_run_logs_emptied, biz.ai_set_business_zone, biz.ai_learn_size;
DROP TABLE biz.ai_app_sizes;
ALTER TABLE biz.ai_budget_days DROP COLUMN ceiling;
ALTER TABLE biz.ai_run_logs DROP COLUMN tokens_prompt, DROP COLUMN tokens_ceiling;
