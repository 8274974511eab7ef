"""Who is told of decisions: log, metrics, status and events (``observe``), receivers of notices (``notify``), and the
record of growth (``record``). The gate can do without all of it.
"""
