"""Settings and operation: log files, quarantine, exports and the findings of the doctor."""
