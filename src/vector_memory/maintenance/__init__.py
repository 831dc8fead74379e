"""Maintenance: missing vectors, change of model, backups, import and export, the doctor, the session report."""
