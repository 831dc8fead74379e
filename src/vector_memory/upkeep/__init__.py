"""Maintenance: missing vectors, another model, backups, copies, import and export, the doctor, the session report."""
